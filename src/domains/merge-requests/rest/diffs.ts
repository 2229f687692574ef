import { commitRecord, diffFileRecord, toDiff } from '#domains/repositories/record.ts';
import { readPage } from '#platform/paging.ts';
import { boolean } from '#rest/params.ts';
import { listRoute, type Route, route, streamRoute } from '#rest/route.ts';
import { mergeRequestChangesRecord } from '../record.ts';
import { findRawDiff, listDiffCommits, listDiffFiles } from '../versions/queries.ts';
import { rawDiffText } from '../versions/raw-diffs.ts';
import { findMergeRequest as find, one, wholeRecord } from './one.ts';
import { toDiffCommit, toDiffFile } from './version-record.ts';

const tag = 'Merge requests';
/** The maximum number of files in one response. */
const MAX_CHANGES = 1_000;

export const diffRoutes = [
  listRoute({
    path: '/projects/:id/merge_requests/:merge_request_iid/diffs',
    tag,
    summary: 'List the changed files of a merge request',
    auth: 'optional',
    paging: 'offset',
    input: { ...one, unidiff: boolean().default(false) },
    item: diffFileRecord,
    run: async (ctx, { id, merge_request_iid, unidiff }, page) => {
      const { row } = await find(ctx, id, merge_request_iid);
      const found = await readPage(listDiffFiles(ctx, row), page);
      return { ...found, items: found.items.map((file) => toDiffFile(file, unidiff)) };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/merge_requests/:merge_request_iid/changes',
    tag,
    summary: 'Get a merge request with its changed files',
    removedInV5: {
      replacedBy: 'GET /projects/:id/merge_requests/:merge_request_iid/diffs',
      successor: '/projects/:id/merge_requests/:merge_request_iid/diffs',
    },
    description: `Returns at most ${MAX_CHANGES} files. \`overflow\` is true if there are more. With \`access_raw_diffs\`, computes the changes from the repository, or returns the stored ones if the commits are no longer there.`,
    auth: 'optional',
    input: { ...one, unidiff: boolean().default(false), access_raw_diffs: boolean().default(false) },
    response: mergeRequestChangesRecord,
    run: async (ctx, { id, merge_request_iid, unidiff, access_raw_diffs }) => {
      const { project, row } = await find(ctx, id, merge_request_iid);
      const record = await wholeRecord(ctx, project, row);
      const raw = access_raw_diffs && record.diff_refs ? await findRawDiff(ctx, project, record.diff_refs) : null;
      if (raw) {
        const changes = raw.files.slice(0, MAX_CHANGES).map((file) => toDiff(file, unidiff));
        return { ...record, changes, overflow: raw.overflow || raw.files.length > MAX_CHANGES };
      }
      const files = await listDiffFiles(ctx, row).rows({ limit: MAX_CHANGES + 1 });
      return {
        ...record,
        changes: files.slice(0, MAX_CHANGES).map((file) => toDiffFile(file, unidiff)),
        // An imported list may already be truncated, with a size such as `1000+`.
        overflow: files.length > MAX_CHANGES || (record.changes_count?.endsWith('+') ?? false),
      };
    },
  }),
  streamRoute({
    method: 'GET',
    path: '/projects/:id/merge_requests/:merge_request_iid/raw_diffs',
    tag,
    summary: 'Get the changes of a merge request as text',
    description:
      'Plain text in the format of `git diff`, without limits. If the commits are no longer there, what is stored of the changes.',
    auth: 'optional',
    input: one,
    run: async (ctx, { id, merge_request_iid }) => {
      const { project, row } = await find(ctx, id, merge_request_iid);
      return { stream: await rawDiffText(ctx, project, row), contentType: 'text/plain; charset=utf-8' };
    },
  }),
  listRoute({
    path: '/projects/:id/merge_requests/:merge_request_iid/commits',
    tag,
    summary: 'List the commits of a merge request',
    auth: 'optional',
    paging: 'offset',
    input: one,
    item: commitRecord,
    run: async (ctx, { id, merge_request_iid }, page) => {
      const { project, row } = await find(ctx, id, merge_request_iid);
      const found = await readPage(listDiffCommits(ctx, row), page);
      return { ...found, items: found.items.map((commit) => toDiffCommit(ctx, project, commit)) };
    },
  }),
] satisfies readonly Route[];
