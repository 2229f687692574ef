import { z } from 'zod';
import { withCustomAttributes, withCustomAttributesFlag } from '#domains/custom-attributes/rest.ts';
import { getGroup } from '#domains/groups/queries.ts';
import { groupDetailRecord, groupDetailShape, toGroupDetail } from '#domains/groups/record.ts';
import type { Context } from '#platform/context.ts';
import { MAX_PER_PAGE, offsetPage } from '#platform/paging.ts';
import { EncodedJson } from '#rest/encoded-json.ts';
import { boolean, idOrPath } from '#rest/params.ts';
import { route } from '#rest/route.ts';
import { getProject, type ProjectFilter } from '../queries.ts';
import { anyProjectRecord } from '../record.ts';
import { transferProject } from '../transfer.ts';
import { projectPage } from './page.ts';

const groupWithProjects = z
  .object({
    ...groupDetailShape,
    projects: z.array(anyProjectRecord).optional(),
    shared_projects: z.array(anyProjectRecord).optional(),
  })
  .meta({ id: 'GroupWithProjects' });

/** The only routes of groups that return projects. */
export const groupRoutes = [
  route({
    method: 'GET',
    path: '/groups/:id',
    tag: 'Groups',
    summary: 'Get a group',
    description:
      'Includes its projects and those shared with it, at most 100 of each, unless `with_projects` is false.',
    auth: 'optional',
    input: {
      id: idOrPath(),
      with_projects: boolean().default(true),
      statistics: boolean().default(false).describe('Administrators only: ignored for other callers.'),
      with_custom_attributes: withCustomAttributesFlag,
    },
    response: groupWithProjects,
    run: async (ctx, { id, with_projects, statistics, with_custom_attributes }) => {
      const group = await getGroup(ctx, id);
      const detail = await toGroupDetail(ctx, group, { statistics });
      const [record = detail] = await withCustomAttributes(ctx, 'groups', [detail], with_custom_attributes);
      if (!with_projects) return record;
      const [projects, shared_projects] = await Promise.all([
        projectRecordsOf(ctx, { namespace_id: group.id }),
        projectRecordsOf(ctx, { namespace_id: group.id, with_shared: 'only' }),
      ]);
      return { ...record, projects, shared_projects };
    },
  }),
  route({
    method: 'POST',
    path: '/groups/:id/projects/:project_id',
    tag: 'Groups',
    summary: 'Move a project into a group',
    input: { id: idOrPath(), project_id: idOrPath() },
    response: groupDetailRecord,
    run: async (ctx, { id, project_id }) => {
      const group = await getGroup(ctx, id);
      await transferProject(ctx, await getProject(ctx, project_id), { id: group.id });
      return toGroupDetail(ctx, group);
    },
  }),
];

/** Returns at most 100 records, for the group record that includes its projects. */
const projectRecordsOf = async (ctx: Context, filter: ProjectFilter) => {
  const { items } = await projectPage(ctx, filter, offsetPage(1, MAX_PER_PAGE));
  return items.map((item) => (item instanceof EncodedJson ? item.read() : item));
};
