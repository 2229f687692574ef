import { MAX_LABELS } from '#domains/labels/linking.ts';
import { APPROVAL_RULES } from '#domains/projects/attributes.ts';
import { getProject } from '#domains/projects/queries.ts';
import { atLeastOneOf, boolean, commaList, dateTime, exclusive, idOrPath, integer, oneOf, text } from '#rest/params.ts';
import { type Route, route, TEXT_BODY_BYTES } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { removedInV5 } from '#rest/v5.ts';
import { createMergeRequest, updateMergeRequest } from '../commands.ts';
import { deleteMergeRequest } from '../deleting.ts';
import { mergeRequestRecord } from '../record.ts';
import { findMergeRequest, one, wholeRecord } from './one.ts';

const tag = 'Merge requests';
const labels = () => commaList(text({ max: 255 }), { max: MAX_LABELS });
const people = () => commaList(integer(), { max: 200 }).nullish();
const branch = () => text({ max: 255 });

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
  merge_after: dateTime().nullish(),
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
      approvals_before_merge: removedInV5(integer({ min: 0, max: 100 }).nullish(), APPROVAL_RULES),
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
        'merge_after',
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
    method: 'DELETE',
    path: '/projects/:id/merge_requests/:merge_request_iid',
    tag,
    summary: 'Delete a merge request',
    description: 'For owners of the project and administrators.',
    refusals: MODIFIED,
    input: one,
    response: null,
    run: async (ctx, { id, merge_request_iid }, http) => {
      const { project, row } = await findMergeRequest(ctx, id, merge_request_iid);
      await deleteMergeRequest(ctx, project, row, unmodifiedSince(http));
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

/** An empty `assignee_id` stands for nobody, and so does 0. */
const assigneesBy = (id: number | null | undefined): readonly number[] | undefined =>
  id === undefined ? undefined : [id ?? 0];

/** Older parameters under their present names. Clients send null for a list that they do not set. */
const common = (input: Sent) => ({
  assignee_ids: input.assignee_ids ?? assigneesBy(input.assignee_id),
  reviewer_ids: input.reviewer_ids ?? undefined,
  labels: input.labels ?? undefined,
  allow_collaboration: input.allow_collaboration ?? input.allow_maintainer_to_push,
});
