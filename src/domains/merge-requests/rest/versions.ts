import { readPage } from '#platform/paging.ts';
import { integer } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { getVersion, listVersionCommits, listVersionFiles, listVersions } from '../queries.ts';
import { mergeRequestVersionRecord, mergeRequestWholeVersionRecord, toVersion, toWholeVersion } from '../record.ts';
import { findMergeRequest, one } from './one.ts';

const tag = 'Merge requests';
/** The maximum number of files and commits in one response. */
const MAX_ITEMS = 1_000;

export const versionRoutes = [
  listRoute({
    path: '/projects/:id/merge_requests/:merge_request_iid/versions',
    tag,
    summary: 'List the versions of a merge request',
    description: 'The diffs that its source branch has had, newest first.',
    auth: 'optional',
    paging: 'offset',
    input: one,
    item: mergeRequestVersionRecord,
    run: async (ctx, { id, merge_request_iid }, page) => {
      const { row } = await findMergeRequest(ctx, id, merge_request_iid);
      const found = await readPage(listVersions(ctx, row), page);
      return { ...found, items: found.items.map(toVersion) };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/merge_requests/:merge_request_iid/versions/:version_id',
    tag,
    summary: 'Get a version with its commits and changed files',
    description: `Returns at most ${MAX_ITEMS} of each.`,
    auth: 'optional',
    input: { ...one, version_id: integer() },
    response: mergeRequestWholeVersionRecord,
    run: async (ctx, { id, merge_request_iid, version_id }) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      const version = await getVersion(ctx, row, version_id);
      const [commits, files] = await Promise.all([
        listVersionCommits(ctx, version).rows({ limit: MAX_ITEMS }),
        listVersionFiles(ctx, version).rows({ limit: MAX_ITEMS }),
      ]);
      return toWholeVersion(ctx, project, version, commits, files);
    },
  }),
] satisfies readonly Route[];
