import { toDiff } from '#domains/repositories/record.ts';
import { readPage } from '#platform/paging.ts';
import { boolean, integer } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { findRawDiff, getVersion, listVersionCommits, listVersionFiles, listVersions } from '../versions/queries.ts';
import { findMergeRequest, one } from './one.ts';
import {
  mergeRequestVersionRecord,
  mergeRequestWholeVersionRecord,
  toDiffFile,
  toVersion,
  toWholeVersion,
} from './version-record.ts';

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
    description: `Returns at most ${MAX_ITEMS} of each. A version whose files were dropped after the merge is computed from the repository.`,
    auth: 'optional',
    input: { ...one, version_id: integer(), unidiff: boolean().default(false) },
    response: mergeRequestWholeVersionRecord,
    run: async (ctx, { id, merge_request_iid, version_id, unidiff }) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      const version = await getVersion(ctx, row, version_id);
      const [commits, raw] = await Promise.all([
        listVersionCommits(ctx, version).rows({ limit: MAX_ITEMS }),
        version.state === 'without_files'
          ? findRawDiff(ctx, project, { base_sha: version.base_commit_sha, head_sha: version.head_commit_sha })
          : null,
      ]);
      const diffs = raw
        ? raw.files.slice(0, MAX_ITEMS).map((file) => toDiff(file, unidiff))
        : (await listVersionFiles(ctx, version).rows({ limit: MAX_ITEMS })).map((file) => toDiffFile(file, unidiff));
      return toWholeVersion(ctx, project, version, commits, diffs);
    },
  }),
] satisfies readonly Route[];
