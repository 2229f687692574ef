import { z } from 'zod';
import { ownId } from '#domains/users/policy.ts';
import { builder } from '#graphql/builder.ts';
import type { ModelId } from '#graphql/ids.ts';
import { subscriptionField, type Update, updateFields, updateOf } from '#graphql/subscription.ts';
import type { Context } from '#platform/context.ts';
import { badRequest, notFound } from '#platform/errors.ts';
import type { LiveFilter } from '#platform/event-log/read.ts';
import type { EventRow } from '#platform/events.ts';
import {
  mergeRequestApproved,
  mergeRequestChecked,
  mergeRequestClosed,
  mergeRequestMerged,
  mergeRequestOpened,
  mergeRequestPrepared,
  mergeRequestReopened,
  mergeRequestReviewed,
  mergeRequestUnapproved,
  mergeRequestUpdated,
} from '../events.ts';
import { MergeRequestRef } from '../graphql.ts';
import { type MergeRequestRow, mergeRequestsByIds } from '../queries.ts';

interface MergeRequestUpdate extends Update {
  readonly event: string;
  readonly mergeRequest: MergeRequestRow;
}

const MergeRequestUpdateRef = builder.objectRef<MergeRequestUpdate>('MergeRequestUpdate').implement({
  description: 'Something about a merge request has changed.',
  fields: (t) => ({
    ...updateFields(t),
    event: t.exposeString('event', { nullable: false, description: 'The kind of the event, as `events` has it.' }),
    mergeRequest: t.expose('mergeRequest', { type: MergeRequestRef, nullable: false, description: 'As it is now.' }),
  }),
});

interface Followed {
  readonly description: string;
  readonly kinds: readonly { readonly kind: string }[];
  /** Returns true for the events that the subscription is about. All events of the kinds by default. */
  readonly isMeant?: (event: EventRow) => boolean;
}

/** Declares a subscription that follows one merge request (reference: merge-requests §8). */
export const followMergeRequest = (name: string, { description, kinds, isMeant }: Followed): void =>
  subscriptionField(name, {
    description,
    type: MergeRequestUpdateRef,
    args: (t) => ({ issuableId: t({ type: 'IssuableID', required: true }) }),
    open: async (ctx, { issuableId }) => {
      const row = await getFollowed(ctx, issuableId);
      return {
        kinds: new Set(kinds.map(({ kind }) => kind)),
        project_id: row.project_id,
        subject: { type: 'MergeRequest', id: row.id },
        ...(isMeant ? { concerns: isMeant } : {}),
      } satisfies LiveFilter;
    },
    resolve: (event, _args, ctx) => changeOf(ctx, event, isMeant),
  });

const getFollowed = async (ctx: Context, { model, id }: ModelId): Promise<MergeRequestRow> => {
  if (model !== 'MergeRequest') throw badRequest('issuableId must be the id of a merge request');
  const row = (await mergeRequestsByIds(ctx, [id])).get(id);
  if (!row) throw notFound('Merge Request');
  return row;
};

const changeOf = async (
  ctx: Context,
  event: EventRow,
  isMeant: (event: EventRow) => boolean = () => true,
): Promise<MergeRequestUpdate | null> => {
  if (!isMeant(event)) return null;
  const mergeRequest = (await mergeRequestsByIds(ctx, [event.subject_id])).get(event.subject_id);
  return mergeRequest ? { ...updateOf(event), event: event.kind, mergeRequest } : null;
};

const people = z.array(z.object({ id: z.number().nullish() })).catch([]);
const changed = z
  .object({ previous: z.unknown(), current: z.unknown() })
  .transform(({ previous }) => people.parse(previous).flatMap(({ id }) => id ?? []));
/** The part of a payload that decides which subscribers get an update. */
const outline = z.object({
  merge_request: z.object({ assignee_ids: z.array(z.number()), reviewer_ids: z.array(z.number()) }),
  changes: z.object({ assignees: changed.optional(), reviewers: changed.optional() }).loose().default({}),
  oldrev: z.string().optional(),
});
type Outline = z.output<typeof outline>;

/** All subscribers share one parsed payload. */
const outlines = new WeakMap<object, Outline>();
const outlineOf = ({ payload }: EventRow): Outline => {
  if (typeof payload !== 'object' || payload === null) return outline.parse(payload);
  const known = outlines.get(payload) ?? outline.parse(payload);
  outlines.set(payload, known);
  return known;
};

const isUpdate = ({ kind }: EventRow): boolean => kind === mergeRequestUpdated.kind;

/** Changes of these attributes may change whether it can be merged. */
const DECISIVE = ['draft', 'target_branch', 'merge_error', 'merge_when_pipeline_succeeds', 'merge_after'] as const;

followMergeRequest('mergeRequestMergeStatusUpdated', {
  description: 'Follows whether a merge request can be merged.',
  kinds: [
    mergeRequestPrepared,
    mergeRequestChecked,
    mergeRequestUpdated,
    mergeRequestClosed,
    mergeRequestReopened,
    mergeRequestMerged,
  ],
  isMeant: (event) => {
    if (!isUpdate(event)) return true;
    const { changes, oldrev } = outlineOf(event);
    return oldrev !== undefined || DECISIVE.some((name) => changes[name] !== undefined);
  },
});

followMergeRequest('mergeRequestReviewersUpdated', {
  description: 'Follows who reviews a merge request, and requests for another review.',
  kinds: [mergeRequestUpdated],
  isMeant: (event) => outlineOf(event).changes.reviewers !== undefined,
});

followMergeRequest('mergeRequestDiffGenerated', {
  description: 'Follows the versions of a merge request: each is announced once its diff can be read.',
  kinds: [mergeRequestPrepared, mergeRequestUpdated],
  isMeant: (event) => !isUpdate(event) || outlineOf(event).oldrev !== undefined,
});

/** Returns true if the user is or was among the assignees or reviewers. */
const concerns = (event: EventRow, userId: number): boolean => {
  const { merge_request, changes } = outlineOf(event);
  return [
    merge_request.assignee_ids,
    merge_request.reviewer_ids,
    changes.assignees ?? [],
    changes.reviewers ?? [],
  ].some((ids) => ids.includes(userId));
};

subscriptionField('userMergeRequestUpdated', {
  description:
    'Follows the merge requests that the caller is assigned to or reviews, their approvals, and those that they leave.',
  type: MergeRequestUpdateRef,
  args: (t) => ({ userId: t({ type: 'UserID', required: true, description: 'The caller.' }) }),
  open: (ctx, args): LiveFilter => {
    const userId = ownId(ctx, args.userId);
    return {
      kinds: new Set(
        [
          mergeRequestOpened,
          mergeRequestPrepared,
          mergeRequestUpdated,
          mergeRequestChecked,
          mergeRequestClosed,
          mergeRequestReopened,
          mergeRequestMerged,
          mergeRequestApproved,
          mergeRequestUnapproved,
          mergeRequestReviewed,
        ].map(({ kind }) => kind),
      ),
      concerns: (event) => concerns(event, userId),
    };
  },
  resolve: (event, { userId }, ctx) => changeOf(ctx, event, (each) => concerns(each, userId)),
});
