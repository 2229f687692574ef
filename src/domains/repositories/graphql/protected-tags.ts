import { JUDGED, projectField } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { builder } from '#graphql/builder.ts';
import { listConnection } from '#graphql/connection.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import {
  listOfTagProtections,
  type ProtectedTag,
  protectedTagsByProjects,
  protectTag,
  unprotectTag,
} from '../protections/tags.ts';
import { LevelRef } from './protected-branches.ts';
import { projectAt } from './refs.ts';

const ProtectedTagRef = builder.objectRef<ProtectedTag>('ProtectedTag').implement({
  description: 'A protected tag, or a wildcard that protects all matching tags.',
  fields: (t) => ({
    id: t.exposeInt('id', { nullable: false }),
    name: t.exposeString('name', { nullable: false }),
    createAccessLevels: t.field({
      type: [LevelRef],
      nullable: { list: false, items: false },
      resolve: ({ levels }) => levels,
    }),
  }),
});
const ProtectedTagConnection = builder.connectionObject(
  { type: ProtectedTagRef, name: 'ProtectedTagConnection' },
  { name: 'ProtectedTagEdge' },
);

const loadProtectedTags = loader(protectedTagsByProjects);

projectField('protectedTags', JUDGED, (t) =>
  t.connection(
    {
      type: ProtectedTagRef,
      nullable: true,
      description: 'Only for Developers and above.',
      resolve: async (project, args, ctx, info) => {
        if (!can(ctx, project, 'read_protected_branch')) return null;
        return listConnection(args, info, listOfTagProtections((await loadProtectedTags(ctx, project.id)) ?? []));
      },
    },
    ProtectedTagConnection,
  ),
);

const GrantInput = builder.inputType('ProtectedTagGrantInput', {
  description: 'Exactly one of `accessLevel`, `userId` and `groupId`.',
  fields: (t) => ({
    accessLevel: t.int({ description: '0, 30, 40 or 60.' }),
    userId: t.field({ type: 'UserID' }),
    groupId: t.field({ type: 'GroupID' }),
  }),
});

mutationField('protectedTagCreate', {
  description: 'Restricts who may create a tag, or all tags that match a wildcard. Defaults to Maintainers.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    name: t.string({ required: true, description: '`*` matches any characters.' }),
    allowedToCreate: t.field({ type: [GrantInput] }),
  }),
  payload: { protectedTag: ProtectedTagRef },
  run: async (ctx, { projectPath, name, allowedToCreate }) => {
    const allowed_to_create = allowedToCreate?.map((grant) => ({
      access_level: grant.accessLevel ?? undefined,
      user_id: grant.userId ?? undefined,
      group_id: grant.groupId ?? undefined,
    }));
    return { protectedTag: await protectTag(ctx, await projectAt(ctx, projectPath), name, { allowed_to_create }) };
  },
});

mutationField('protectedTagDestroy', {
  description: 'Removes a protection.',
  input: (t) => ({ projectPath: t.id({ required: true }), name: t.string({ required: true }) }),
  payload: { protectedTag: ProtectedTagRef },
  run: async (ctx, { projectPath, name }) => ({
    protectedTag: await unprotectTag(ctx, await projectAt(ctx, projectPath), name),
  }),
});
