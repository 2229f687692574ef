import { getProject } from '#domains/projects/queries.ts';
import { atLeastOneOf, boolean, commaList, exclusive, idOrPath, integer, list, oneOf, text } from '#rest/params.ts';
import { type Route, route, TEXT_BODY_BYTES } from '#rest/route.ts';
import { createMergeRequest, deleteMergeRequest, updateMergeRequest } from '../commands.ts';
import { mergeMergeRequest } from '../merging.ts';
import { mergeRequestRecord } from '../record.ts';
import { findMergeRequest, one, wholeRecord } from './one.ts';

const tag = 'Merge requests';
const labels = () => commaList(text({ max: 255 }), { max: 100 });
const people = () => list(integer(), { max: 200 }).nullish();
const branch = () => text({ max: 255 });
const MAX_MESSAGE = 100_000;

const attributes = {
  description: text().nullish(),
  assignee_id: integer().nullish(),
  assignee_ids: people(),
  reviewer_ids: people(),
  milestone_id: integer().nullish(),
  labels: labels().nullish(),
  remove_source_branch: boolean().nullish(),
  squash: boolean().optional(),
  allow_collaboration: boolean().optional(),
  /** The former name of `allow_collaboration`. */
  allow_maintainer_to_push: boolean().optional(),
};

export const writingRoutes = [
  route({
    method: 'POST',
    path: '/projects/:id/merge_requests',
    tag,
    summary: 'Open a merge request',
    description:
      '`id` is the source project. Labels, milestone, assignees and reviewers only apply for Developers of the target project. The diff, `diff_refs`, `changes_count` and the merge status follow.',
    maxBodyBytes: TEXT_BODY_BYTES,
    input: {
      ...attributes,
      id: idOrPath(),
      title: text(),
      source_branch: branch(),
      target_branch: branch(),
      target_project_id: integer().nullish(),
      approvals_before_merge: integer({ min: 0, max: 100 }).nullish(),
    },
    rules: [exclusive('assignee_id', 'assignee_ids'), exclusive('allow_collaboration', 'allow_maintainer_to_push')],
    response: mergeRequestRecord,
    run: async (ctx, { id, ...input }) => {
      const source = await getProject(ctx, id);
      const row = await createMergeRequest(ctx, source, {
        ...input,
        ...common(input),
        target_project_id: input.target_project_id ?? undefined,
      });
      return wholeRecord(ctx, await getProject(ctx, { id: row.project_id }), row);
    },
  }),
  route({
    method: 'PUT',
    path: '/projects/:id/merge_requests/:merge_request_iid',
    tag,
    summary: 'Change, close or reopen a merge request',
    description:
      'The author may change title, description, target branch, state, and what happens to the source branch. Developers and above may change everything.',
    maxBodyBytes: TEXT_BODY_BYTES,
    input: {
      ...attributes,
      ...one,
      title: text().optional(),
      target_branch: branch().optional(),
      state_event: oneOf(['close', 'reopen']).optional(),
      add_labels: labels().optional(),
      remove_labels: labels().optional(),
      discussion_locked: boolean().nullish(),
    },
    rules: [
      exclusive('assignee_id', 'assignee_ids'),
      exclusive('allow_collaboration', 'allow_maintainer_to_push'),
      atLeastOneOf(
        'assignee_id',
        'assignee_ids',
        'add_labels',
        'allow_collaboration',
        'allow_maintainer_to_push',
        'description',
        'discussion_locked',
        'labels',
        'milestone_id',
        'remove_labels',
        'remove_source_branch',
        'reviewer_ids',
        'squash',
        'state_event',
        'target_branch',
        'title',
      ),
    ],
    response: mergeRequestRecord,
    run: async (ctx, { id, merge_request_iid, ...input }) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      return wholeRecord(ctx, project, await updateMergeRequest(ctx, project, row, { ...input, ...common(input) }));
    },
  }),
  route({
    method: 'PUT',
    path: '/projects/:id/merge_requests/:merge_request_iid/merge',
    tag,
    summary: 'Merge a merge request',
    description:
      '`401` if the caller may neither push nor merge to the target branch, `405` if something other than the code is in the way (see `detailed_merge_status`), `409` if `sha` is not the head of the source branch, `422` if the branches cannot be merged. With `merge_when_pipeline_succeeds` the head pipeline must have succeeded already, because waiting for it is not possible yet.',
    input: {
      ...one,
      merge_commit_message: text({ max: MAX_MESSAGE }).optional(),
      squash_commit_message: text({ max: MAX_MESSAGE }).optional(),
      squash: boolean().optional(),
      sha: text({ max: 64 }).optional(),
      should_remove_source_branch: boolean().optional(),
      merge_when_pipeline_succeeds: boolean().optional(),
      /** The present name of `merge_when_pipeline_succeeds`. */
      auto_merge: boolean().optional(),
    },
    rules: [exclusive('merge_when_pipeline_succeeds', 'auto_merge')],
    response: mergeRequestRecord,
    run: async (ctx, { id, merge_request_iid, auto_merge, ...input }) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      const merged = await mergeMergeRequest(ctx, project, row, {
        ...input,
        merge_when_pipeline_succeeds: input.merge_when_pipeline_succeeds ?? auto_merge,
      });
      return wholeRecord(ctx, project, merged);
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/merge_requests/:merge_request_iid',
    tag,
    summary: 'Delete a merge request',
    description: 'For owners of the project and administrators.',
    input: one,
    response: null,
    run: async (ctx, { id, merge_request_iid }) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      await deleteMergeRequest(ctx, project, row);
    },
  }),
] satisfies readonly Route[];

interface Sent {
  readonly assignee_id?: number | null | undefined;
  readonly assignee_ids?: readonly number[] | null | undefined;
  readonly reviewer_ids?: readonly number[] | null | undefined;
  readonly labels?: readonly string[] | null | undefined;
  readonly allow_collaboration?: boolean | undefined;
  readonly allow_maintainer_to_push?: boolean | undefined;
}

/** Older parameters under their present names. Clients send null for a parameter that they do not set. */
const common = (input: Sent) => ({
  assignee_ids: input.assignee_ids ?? (input.assignee_id == null ? undefined : [input.assignee_id]),
  reviewer_ids: input.reviewer_ids ?? undefined,
  labels: input.labels ?? undefined,
  allow_collaboration: input.allow_collaboration ?? input.allow_maintainer_to_push,
});
