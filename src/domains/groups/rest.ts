import { z } from 'zod';
import { customAttributeRoutes } from '#domains/custom-attributes/rest.ts';
import { boolean, idOrPath, integer, text } from '#rest/params.ts';
import { pictureRoute } from '#rest/picture-route.ts';
import { route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { openGroupAvatar } from './avatar.ts';
import { createGroup, transferGroup, updateGroup } from './commands.ts';
import { deleteGroup, restoreGroup } from './deletion.ts';
import { getGroup } from './queries.ts';
import { groupDetailRecord, toGroupDetail } from './record.ts';
import { attributes, avatar, toAttributes, updatable } from './rest/inputs.ts';
import { listRoutes } from './rest/lists.ts';
import { namespaceRoutes } from './rest/namespaces.ts';
import { sharingRoutes } from './rest/sharing.ts';

const accepted = { message: '202 Accepted' };
const acceptedRecord = z.object({ message: z.string() }).meta({ id: 'Accepted' });

export const routes = [
  ...customAttributeRoutes('groups', idOrPath(), getGroup),
  ...listRoutes,
  route({
    method: 'POST',
    path: '/groups',
    tag: 'Groups',
    summary: 'Create a group',
    input: { name: text(), path: text(), parent_id: integer({ min: 1 }).nullish(), avatar, ...attributes },
    response: groupDetailRecord,
    run: async (ctx, { name, path, parent_id, avatar: picture, ...rest }) => {
      const parent = parent_id ? { id: parent_id } : null;
      return toGroupDetail(ctx, await createGroup(ctx, { ...toAttributes(rest), name, path, parent, avatar: picture }));
    },
  }),
  route({
    method: 'PUT',
    path: '/groups/:id',
    tag: 'Groups',
    summary: 'Update a group',
    input: { id: idOrPath(), avatar, ...attributes, ...updatable },
    response: groupDetailRecord,
    run: async (ctx, { id, avatar: picture, ...input }) => {
      const { name, path, file_template_project_id, ip_restriction_ranges, shared_runners_setting, ...rest } = input;
      const { service_access_tokens_expiration_enforced, max_artifacts_size, ...common } = rest;
      const changes = {
        ...toAttributes(common),
        avatar: picture,
        name,
        path,
        file_template_project_id,
        ip_restriction_ranges,
        shared_runners_setting,
        service_access_tokens_expiration_enforced,
        max_artifacts_size,
      };
      return toGroupDetail(ctx, await updateGroup(ctx, id, changes));
    },
  }),
  route({
    method: 'DELETE',
    path: '/groups/:id',
    tag: 'Groups',
    summary: 'Delete a group with everything in it',
    status: 202,
    description:
      'If `deletion_adjourned_period` gives a delay, the group is only marked at first. With `permanently_remove` and its path in `full_path`, a marked group is removed at once.',
    refusals: MODIFIED,
    input: {
      id: idOrPath(),
      permanently_remove: boolean().default(false),
      // Clients with static types send an empty path if none is set.
      full_path: text({ emptyIsNull: true }).optional(),
    },
    response: acceptedRecord,
    run: async (ctx, { id, permanently_remove, full_path }, http) => {
      await deleteGroup(ctx, id, {
        permanentlyRemove: permanently_remove,
        fullPath: full_path,
        unchangedSince: unmodifiedSince(http),
      });
      return accepted;
    },
  }),
  route({
    method: 'POST',
    path: '/groups/:id/restore',
    tag: 'Groups',
    summary: 'Restore a group that is marked for deletion',
    input: { id: idOrPath() },
    response: groupDetailRecord,
    run: async (ctx, { id }) => toGroupDetail(ctx, await restoreGroup(ctx, id)),
  }),
  route({
    method: 'POST',
    path: '/groups/:id/transfer',
    tag: 'Groups',
    summary: 'Move a group under another group, or to the top level',
    input: { id: idOrPath(), group_id: integer({ min: 1 }).nullish() },
    response: groupDetailRecord,
    run: async (ctx, { id, group_id }) =>
      toGroupDetail(ctx, await transferGroup(ctx, id, group_id ? { id: group_id } : null)),
  }),
  pictureRoute({ of: 'group', tag: 'Groups', summary: "Get a group's avatar", open: openGroupAvatar }),
  ...sharingRoutes,
  ...namespaceRoutes,
];
