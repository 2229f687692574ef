import { GroupRef } from '#domains/groups/graphql.ts';
import { canOnGroup } from '#domains/groups/policy.ts';
import type { ContainerAddress } from '#domains/planning/container.ts';
import { JUDGED, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { gid } from '#graphql/ids.ts';
import { mutationField } from '#graphql/mutation.ts';
import { badRequest } from '#platform/errors.ts';
import { deleteUpload, deleteUploadAt } from './commands.ts';
import { listUploadsBelow, type UploadRow } from './queries.ts';

/** Resolvers must have checked that the caller may administer the uploads. */
const FileUpload = builder.objectRef<UploadRow>('FileUpload').implement({
  description: 'A file attached to a group or project. Files are sent over REST.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => gid('Upload', id) }),
    filename: t.exposeString('filename', { nullable: false }),
    size: t.exposeFloat('size', { nullable: false, description: 'In bytes.' }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    uploadedBy: t.field({
      type: UserRef,
      nullable: true,
      resolve: ({ uploaded_by_id: id }, _args, ctx) => (id === null ? null : loadUser(ctx, id)),
    }),
  }),
});

const FileUploadConnection = builder.connectionObject(
  { type: FileUpload, name: 'FileUploadConnection' },
  { name: 'FileUploadEdge' },
);

const groupUploads = batchedConnection((ctx, _args: ConnectionArguments) => listUploadsBelow(ctx, 'group'));
const projectUploads = batchedConnection((ctx, _args: ConnectionArguments) => listUploadsBelow(ctx, 'project'));

builder.objectField(GroupRef, 'uploads', (t) =>
  t.connection(
    {
      type: FileUpload,
      nullable: true,
      description: 'The uploads of the group, newest first. Requires a Maintainer.',
      resolve: (group, args, ctx, info) =>
        canOnGroup(ctx, group, 'admin_uploads') ? groupUploads(group.id, args, ctx, info) : null,
    },
    FileUploadConnection,
  ),
);

projectField('uploads', JUDGED, (t) =>
  t.connection(
    {
      type: FileUpload,
      nullable: true,
      description: 'The uploads of the project, newest first. Requires a Maintainer.',
      resolve: (project, args, ctx, info) =>
        can(ctx, project, 'admin_uploads') ? projectUploads(project.id, args, ctx, info) : null,
    },
    FileUploadConnection,
  ),
);

const containerOf = (
  groupPath: string | null | undefined,
  projectPath: string | null | undefined,
): ContainerAddress => {
  if ((groupPath == null) === (projectPath == null)) throw badRequest('either groupPath or projectPath is required');
  return groupPath == null
    ? { kind: 'project', id: { path: projectPath ?? '' } }
    : { kind: 'group', id: { path: groupPath } };
};

mutationField('uploadDelete', {
  description: 'Deletes an upload of a group or project, by id or by secret and file name.',
  input: (t) => ({
    groupPath: t.id(),
    projectPath: t.id(),
    id: t.field({ type: 'UploadID' }),
    secret: t.string(),
    filename: t.string(),
  }),
  payload: {},
  run: async (ctx, { groupPath, projectPath, id, secret, filename }) => {
    const container = containerOf(groupPath, projectPath);
    if (id != null) await deleteUpload(ctx, container, id);
    else if (secret != null && filename != null) await deleteUploadAt(ctx, container, { secret, filename });
    else throw badRequest('id, or secret and filename, are required');
    return {};
  },
});
