import type { z } from 'zod';
import { pipelineListRecord, toPipelineListed } from '#domains/ci/record.ts';
import { getGroup } from '#domains/groups/queries.ts';
import { LIST_SCOPES, SEARCHED } from '#domains/planning/list-filter.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import { getProject } from '#domains/projects/queries.ts';
import { getCommit } from '#domains/repositories/commits.ts';
import { commitRecord, diffFileRecord, toDiff } from '#domains/repositories/record.ts';
import type { Context } from '#platform/context.ts';
import type { List } from '#platform/db/list.ts';
import { type Page, type PageRequest, readPage } from '#platform/paging.ts';
import {
  boolean,
  commaList,
  dateTime,
  exclusive,
  hash,
  type Input,
  idOrPath,
  integer,
  oneOf,
  type Rule,
  text,
} from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import type { Choice, Criteria, MergeRequestFilter, Person } from './filter.ts';
import { MERGE_REQUEST_STATES } from './model.ts';
import {
  countDivergedCommits,
  findRawDiff,
  listDiffCommits,
  listDiffFiles,
  listMergeRequestPipelines,
  listMergeRequests,
  listVisibleMergeRequests,
  type MergeRequestRow,
} from './queries.ts';
import {
  anyMergeRequestRecord,
  mergeRequestChangesRecord,
  mergeRequestRecord,
  toDiffCommit,
  toDiffFile,
  toMergeRequests,
  toSimpleMergeRequest,
} from './record.ts';
import { changelogRoutes } from './rest/changelog.ts';
import { findMergeRequest as find, one, wholeRecord } from './rest/one.ts';
import { versionRoutes } from './rest/versions.ts';
import { writingRoutes } from './rest/writing.ts';

const tag = 'Merge requests';
const words = text({ max: 1_000 });
const username = text({ max: 255 }).optional();
/** An id, `None` or `Any`. */
const idOrWord = text({ max: 20, pattern: /^(?:\d{1,15}|None|Any|none|any|)$/ }).optional();

const criteria = {
  labels: commaList(text({ max: 255 })).optional(),
  milestone: words.optional(),
  author_id: integer().optional(),
  author_username: username,
  assignee_id: idOrWord,
  assignee_username: commaList(text({ max: 255 }), { max: 1 }).optional(),
  reviewer_id: idOrWord,
  reviewer_username: username,
  my_reaction_emoji: text({ max: 255 }).optional(),
};

const filters = {
  ...criteria,
  not: hash(criteria).optional(),
  state: oneOf([...MERGE_REQUEST_STATES, 'all']).default('all'),
  approved: oneOf(['yes', 'no']).optional(),
  approved_by_ids: commaList(text({ max: 20, pattern: /^(?:\d{1,15}|None|Any)$/ }), { max: 5 }).optional(),
  approver_ids: commaList(text({ max: 20, pattern: /^(?:\d{1,15}|None|Any)$/ })).optional(),
  merge_user_id: integer().optional(),
  merge_user_username: username,
  source_branch: words.optional(),
  target_branch: words.optional(),
  wip: oneOf(['yes', 'no']).optional(),
  draft: boolean().optional(),
  search: words.optional(),
  in: commaList(oneOf(SEARCHED)).optional(),
  created_after: dateTime().optional(),
  created_before: dateTime().optional(),
  updated_after: dateTime().optional(),
  updated_before: dateTime().optional(),
  environment: words.optional(),
  deployed_after: dateTime().optional(),
  deployed_before: dateTime().optional(),
  order_by: oneOf(['created_at', 'updated_at', 'title', 'merged_at']).default('created_at'),
  sort: oneOf(['asc', 'desc']).default('desc'),
  view: oneOf(['simple']).optional(),
  with_labels_details: boolean().default(false),
  with_merge_status_recheck: boolean().default(false),
};
const scope = oneOf(LIST_SCOPES);
const rules = [
  exclusive('author_id', 'author_username'),
  exclusive('assignee_id', 'assignee_username'),
  exclusive('reviewer_id', 'reviewer_username'),
  exclusive('merge_user_id', 'merge_user_username'),
] satisfies readonly Rule<keyof typeof filters>[];

/** The maximum number of files in one response. */
const MAX_CHANGES = 1_000;

export const routes = [
  ...changelogRoutes,
  ...writingRoutes,
  ...versionRoutes,
  listRoute({
    path: '/merge_requests',
    tag,
    summary: 'List merge requests',
    description: "The caller's own merge requests by default; see `scope`.",
    paging: 'offset',
    input: { ...filters, scope: scope.default('created_by_me') },
    rules,
    item: anyMergeRequestRecord,
    run: (ctx, input, page) =>
      mergeRequestPage(
        ctx,
        listVisibleMergeRequests(ctx, { ...filterOf(input), scope: input.scope }),
        page,
        input,
        null,
      ),
  }),
  listRoute({
    path: '/groups/:id/merge_requests',
    tag,
    summary: 'List the merge requests below a group',
    auth: 'optional',
    paging: 'offset',
    input: { ...filters, id: idOrPath(), scope: scope.default('all'), non_archived: boolean().default(true) },
    rules,
    item: anyMergeRequestRecord,
    run: async (ctx, input, page) => {
      const group = await getGroup(ctx, input.id);
      const { scope, non_archived } = input;
      const found = listVisibleMergeRequests(ctx, { ...filterOf(input), scope, non_archived, group_id: group.id });
      return mergeRequestPage(ctx, found, page, input, null);
    },
  }),
  listRoute({
    path: '/projects/:id/merge_requests',
    tag,
    summary: 'List the merge requests of a project',
    auth: 'optional',
    paging: 'offset',
    input: { ...filters, id: idOrPath(), scope: scope.default('all'), iids: commaList(integer()).optional() },
    rules,
    item: anyMergeRequestRecord,
    run: async (ctx, input, page) => {
      const project = await getProject(ctx, input.id);
      const { scope, iids } = input;
      const found = listMergeRequests(ctx, project, { ...filterOf(input), scope, iids });
      return mergeRequestPage(ctx, found, page, input, project.full_path);
    },
  }),
  listRoute({
    path: '/projects/:id/repository/commits/:sha/merge_requests',
    tag,
    summary: 'List the merge requests of a commit',
    description: 'Merge requests that contain the commit, or that resulted in it when merged.',
    auth: 'optional',
    paging: 'offset',
    input: { id: idOrPath(), sha: text({ max: 1_000 }), state: filters.state },
    item: anyMergeRequestRecord,
    run: async (ctx, { id, sha, state }, page) => {
      const project = await getProject(ctx, id);
      const { id: commit_sha } = await getCommit(ctx, project, sha);
      const found = listMergeRequests(ctx, project, { commit_sha, state });
      const options = { view: undefined, with_labels_details: false, with_merge_status_recheck: false };
      return mergeRequestPage(ctx, found, page, options, project.full_path);
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/merge_requests/:merge_request_iid',
    tag,
    summary: 'Get a merge request',
    auth: 'optional',
    input: {
      ...one,
      render_html: boolean().default(false),
      include_diverged_commits_count: boolean().default(false),
      include_rebase_in_progress: boolean().default(false),
    },
    response: mergeRequestRecord,
    run: async (ctx, input) => {
      const { project, row } = await find(ctx, input.id, input.merge_request_iid);
      return wholeRecord(ctx, project, row, {
        renderHtml: input.render_html,
        divergedCommits: input.include_diverged_commits_count
          ? await countDivergedCommits(ctx, project, row)
          : undefined,
        includeRebase: input.include_rebase_in_progress,
      });
    },
  }),
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
  listRoute({
    path: '/projects/:id/merge_requests/:merge_request_iid/pipelines',
    tag,
    summary: 'List the pipelines of a merge request',
    auth: 'optional',
    paging: 'offset',
    input: one,
    item: pipelineListRecord,
    run: async (ctx, { id, merge_request_iid }, page) => {
      const { project, row } = await find(ctx, id, merge_request_iid);
      requireAbility(ctx, project, 'read_pipeline');
      const found = await readPage(listMergeRequestPipelines(ctx, row), page);
      return { ...found, items: found.items.map((pipeline) => toPipelineListed(ctx, pipeline)) };
    },
  }),
] satisfies readonly Route[];

const mergeRequestPage = async (
  ctx: Context,
  found: List<MergeRequestRow>,
  page: PageRequest,
  { view, with_labels_details }: { readonly view?: 'simple' | undefined; readonly with_labels_details: boolean },
  place: string | null,
): Promise<Page<z.output<typeof anyMergeRequestRecord>>> => {
  const rows = await readPage(found, page);
  if (view === 'simple') return { ...rows, items: rows.items.map((row) => toSimpleMergeRequest(ctx, row)) };
  return { ...rows, items: await toMergeRequests(ctx, rows.items, { place, withLabelsDetails: with_labels_details }) };
};

const filterOf = (input: Input<typeof filters>): MergeRequestFilter => ({
  ...criteriaOf(input),
  not: input.not ? criteriaOf(input.not) : null,
  state: input.state,
  approved: input.approved === undefined ? null : input.approved === 'yes',
  approved_by_ids: input.approved_by_ids ? idsOf(input.approved_by_ids) : null,
  merge_user: personOf(input.merge_user_id, input.merge_user_username),
  source_branches: input.source_branch ? [input.source_branch] : null,
  target_branches: input.target_branch ? [input.target_branch] : null,
  draft: input.wip === undefined ? input.draft : input.wip === 'yes',
  search: input.search,
  search_in: input.in,
  created_after: input.created_after,
  created_before: input.created_before,
  updated_after: input.updated_after,
  updated_before: input.updated_before,
  // There are no deployments and no approval rules.
  nothing:
    Boolean(input.environment || input.deployed_after || input.deployed_before) ||
    (input.approver_ids !== undefined && input.approver_ids.length > 0 && wordOf(input.approver_ids[0]) !== 'None'),
  order_by: input.order_by,
  sort: input.sort,
});

const criteriaOf = (input: Input<typeof criteria>): Criteria => ({
  labels: input.labels?.length ? choiceOf(input.labels) : null,
  milestone: input.milestone ? choiceOf([input.milestone]) : null,
  author: personOf(input.author_id, input.author_username),
  assignee: holderOf(input.assignee_id, input.assignee_username?.[0]),
  reviewer: holderOf(input.reviewer_id, input.reviewer_username),
  my_reaction_emoji: wordOf(input.my_reaction_emoji) ?? input.my_reaction_emoji,
});

/** `None` and `Any`, case-insensitive. */
const wordOf = (value: string | undefined): 'None' | 'Any' | null => {
  const word = value?.toLowerCase();
  return word === 'none' ? 'None' : word === 'any' ? 'Any' : null;
};

const choiceOf = (values: readonly string[]): Choice<string> =>
  (values.length === 1 ? wordOf(values[0]) : null) ?? values;

const idsOf = (values: readonly string[]): Choice<number> =>
  (values.length === 1 ? wordOf(values[0]) : null) ?? values.map(Number).filter(Number.isSafeInteger);

const personOf = (id: number | undefined, name: string | undefined): Person | null =>
  id === undefined && !name ? null : { id, username: name };

const holderOf = (id: string | undefined, name: string | undefined): 'None' | 'Any' | Person | null => {
  const word = wordOf(id) ?? wordOf(name);
  if (word) return word;
  // 0 has always meant nobody.
  if (id === '0') return 'None';
  return personOf(id ? Number(id) : undefined, name);
};
