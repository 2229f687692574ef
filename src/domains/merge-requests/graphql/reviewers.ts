import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { builder } from '#graphql/builder.ts';
import { connection, pageOfAll } from '#graphql/connection.ts';
import { loader } from '#graphql/loaders.ts';
import { loadStats } from '../graphql.ts';
import { reviewStatesByIds } from '../reviewing/reviews.ts';
import { reviewersWhoMayMerge } from '../reviewing/rights.ts';
import { mergeRequestField } from './columns.ts';

// The reviewers of a merge request: users, with what they have done about it.

type UserNode = NonNullable<Awaited<ReturnType<typeof loadUser>>>;

interface Interaction {
  readonly merge_request_id: number;
  readonly user_id: number;
}

const loadReviews = loader(reviewStatesByIds);
const loadMayMerge = loader(reviewersWhoMayMerge);

const ReviewStateEnum = builder.enumType('MergeRequestReviewState', {
  values: {
    UNREVIEWED: { value: 'unreviewed' },
    REVIEWED: { value: 'reviewed' },
    REQUESTED_CHANGES: { value: 'requested_changes' },
    APPROVED: { value: 'approved' },
    UNAPPROVED: { value: 'unapproved' },
    REVIEW_STARTED: { value: 'review_started' },
  } as const,
});

const UserMergeRequestInteraction = builder.objectRef<Interaction>('UserMergeRequestInteraction').implement({
  description: 'What a reviewer has done about a merge request.',
  fields: (t) => ({
    reviewState: t.field({
      type: ReviewStateEnum,
      resolve: async ({ merge_request_id, user_id }, _args, ctx) =>
        (await loadReviews(ctx, merge_request_id))?.get(user_id) ?? null,
    }),
    reviewed: t.boolean({
      nullable: false,
      description: 'The reviewer has looked at it since they were asked.',
      resolve: async ({ merge_request_id, user_id }, _args, ctx) => {
        const state = (await loadReviews(ctx, merge_request_id))?.get(user_id);
        return state !== undefined && state !== 'unreviewed' && state !== 'review_started';
      },
    }),
    approved: t.boolean({
      nullable: false,
      resolve: async ({ merge_request_id, user_id }, _args, ctx) =>
        (await loadStats(ctx, merge_request_id))?.approver_ids.includes(user_id) ?? false,
    }),
    canMerge: t.boolean({
      nullable: false,
      description: 'The reviewer may push or merge to the target branch.',
      resolve: async ({ merge_request_id, user_id }, _args, ctx) =>
        (await loadMayMerge(ctx, merge_request_id))?.has(user_id) ?? false,
    }),
  }),
});

const ReviewerRef = builder.objectRef<UserNode & { readonly reviews: number }>('MergeRequestReviewer');
builder.objectType(ReviewerRef, {
  name: 'MergeRequestReviewer',
  interfaces: [UserRef],
  fields: (t) => ({
    mergeRequestInteraction: t.field({
      type: UserMergeRequestInteraction,
      resolve: ({ id, reviews }) => ({ merge_request_id: reviews, user_id: id }),
    }),
  }),
});
const ReviewerConnection = builder.connectionObject(
  { type: ReviewerRef, name: 'MergeRequestReviewerConnection' },
  { name: 'MergeRequestReviewerEdge' },
);

mergeRequestField('reviewers', ['id'], (t) =>
  t.connection(
    {
      type: ReviewerRef,
      extensions: { usualSize: 5 },
      resolve: ({ id: reviews }, args, ctx, info) =>
        connection(args, info, async (page) => {
          const ids = (await loadStats(ctx, reviews))?.reviewer_ids ?? [];
          const users = await Promise.all(ids.map((id) => loadUser(ctx, id)));
          return pageOfAll(
            page,
            users.flatMap((user) => (user === null ? [] : [{ ...user, reviews }])),
            (user) => [user.id],
          );
        }),
    },
    ReviewerConnection,
  ),
);
