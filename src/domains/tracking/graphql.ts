import { IssueConnection, IssueRef, loadIssue } from '#domains/issues/graphql.ts';
import { MergeRequestConnection, MergeRequestRef } from '#domains/merge-requests/graphql.ts';
import { mergeRequestsByIds } from '#domains/merge-requests/queries.ts';
import { subscribe, subscribedAmong } from '#domains/planning/subscriptions.ts';
import { humanDuration } from '#domains/planning/time-tracking.ts';
import { getProject } from '#domains/projects/queries.ts';
import { loadUser, UserConnection, UserRef } from '#domains/users/graphql.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder, type InputFields } from '#graphql/builder.ts';
import { type ConnectionArguments, connection, pageOfAll } from '#graphql/connection.ts';
import { gid, type ModelId } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { participantIdsBelow } from './people.ts';
import { issuesByMergeRequestIds, mergeRequestsByIssueIds } from './references.ts';
import { addSpentTime, findTimelog, listTimelogsBelow, removeTimelog, type TimelogRow } from './time.ts';
import { findTracked, getTracked, type TrackedKind } from './tracked.ts';

const loadMergeRequest = loader(mergeRequestsByIds);

const Timelog = builder.objectRef<TimelogRow>('Timelog').implement({
  description: 'Time that was spent on an issue or a merge request.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => gid('Timelog', id) }),
    timeSpent: t.exposeInt('time_spent', {
      nullable: false,
      description: 'In seconds. Negative if it was subtracted.',
    }),
    humanTimeSpent: t.string({ resolve: ({ time_spent }) => humanDuration(time_spent) }),
    summary: t.exposeString('summary'),
    spentAt: t.expose('spent_at', { type: 'Time' }),
    user: t.field({
      type: UserRef,
      description: 'Null if the account has been deleted.',
      resolve: ({ user_id }, _args, ctx) => (user_id === null ? null : loadUser(ctx, user_id)),
    }),
    issue: t.field({
      type: IssueRef,
      resolve: ({ issue_id }, _args, ctx) => (issue_id === null ? null : loadIssue(ctx, issue_id)),
    }),
    mergeRequest: t.field({
      type: MergeRequestRef,
      resolve: ({ merge_request_id }, _args, ctx) =>
        merge_request_id === null ? null : loadMergeRequest(ctx, merge_request_id),
    }),
  }),
});
const TimelogConnection = builder.connectionObject(
  { type: Timelog, name: 'TimelogConnection' },
  { name: 'TimelogEdge' },
);

const timelogsOf = (kind: TrackedKind) =>
  batchedConnection((ctx, _args: ConnectionArguments) => listTimelogsBelow(ctx, kind));
const participantsOf = (kind: TrackedKind) =>
  loader((ctx: Context, ids: readonly number[]) => participantIdsBelow(ctx, kind, ids));

for (const [ref, kind] of [
  [IssueRef, 'issue'],
  [MergeRequestRef, 'merge_request'],
] as const) {
  const timelogs = timelogsOf(kind);
  const loadParticipants = participantsOf(kind);
  builder.objectField(ref, 'timelogs', (t) =>
    t.connection(
      { type: Timelog, nullable: true, resolve: ({ id }, args, ctx, info) => timelogs(id, args, ctx, info) },
      TimelogConnection,
    ),
  );
  builder.objectField(ref, 'participants', (t) =>
    t.connection(
      {
        type: UserRef,
        nullable: true,
        extensions: { usualSize: 5 },
        description: 'Author, assignees, reviewers, and authors of comments that the caller can read.',
        resolve: ({ id }, args, ctx, info) =>
          connection(args, info, async (page) => {
            const { rows, ...rest } = pageOfAll(page, (await loadParticipants(ctx, id)) ?? [], (userId) => [userId]);
            const people = await Promise.all(rows.map((userId) => loadUser(ctx, userId)));
            return {
              ...rest,
              rows: people.filter((person) => person !== null),
              cursorOf: ({ id }: { readonly id: number }) => [id],
            };
          }),
      },
      UserConnection,
    ),
  );
}

const loadSubscribed = loader(async (ctx: Context, ids: readonly number[]) => {
  const subscribed = await subscribedAmong(ctx, 'merge_request', ids);
  return new Map([...subscribed].map((id) => [id, true]));
});

builder.objectField(MergeRequestRef, 'subscribed', (t) =>
  t.boolean({
    nullable: false,
    resolve: async ({ id }, _args, ctx) => (await loadSubscribed(ctx, id)) ?? false,
  }),
);

for (const [name, which] of [
  ['relatedMergeRequests', 'related'],
  ['closingMergeRequests', 'closing'],
] as const) {
  const loadMergeRequests = loader((ctx: Context, ids: readonly number[]) => mergeRequestsByIssueIds(ctx, ids, which));
  builder.objectField(IssueRef, name, (t) =>
    t.connection(
      {
        type: MergeRequestRef,
        nullable: true,
        extensions: { usualSize: 5 },
        description:
          which === 'related'
            ? 'Merge requests that mention the issue.'
            : 'Merge requests that close the issue when they are merged.',
        resolve: ({ id }, args, ctx, info) =>
          connection(args, info, async (page) =>
            pageOfAll(page, (await loadMergeRequests(ctx, id)) ?? [], (row) => [row.id]),
          ),
      },
      MergeRequestConnection,
    ),
  );
}

for (const [name, which] of [
  ['relatedIssues', 'related'],
  ['closesIssues', 'closing'],
] as const) {
  const loadIssues = loader((ctx: Context, ids: readonly number[]) => issuesByMergeRequestIds(ctx, ids, which));
  builder.objectField(MergeRequestRef, name, (t) =>
    t.connection(
      {
        type: IssueRef,
        nullable: true,
        extensions: { usualSize: 5 },
        description:
          which === 'related'
            ? 'Issues that the merge request mentions.'
            : 'Issues that are closed when the merge request is merged.',
        resolve: ({ id }, args, ctx, info) =>
          connection(args, info, async (page) =>
            pageOfAll(page, (await loadIssues(ctx, id)) ?? [], (issue) => [issue.id]),
          ),
      },
      IssueConnection,
    ),
  );
}

const kindOf = ({ model }: ModelId): TrackedKind => (model === 'Issue' ? 'issue' : 'merge_request');

mutationField('timelogCreate', {
  description: 'Adds spent time to an issue or a merge request.',
  input: (t) => ({
    issuableId: t.field({ type: 'IssuableID', required: true }),
    timeSpent: t.string({ required: true, description: 'Such as `1w 2d 3h30m`. A leading `-` subtracts.' }),
    spentAt: t.field({ type: 'Time', description: 'Now by default.' }),
    summary: t.string(),
  }),
  payload: { timelog: Timelog },
  run: async (ctx, { issuableId, timeSpent, spentAt, summary }) => {
    const tracked = await findTracked(ctx, kindOf(issuableId), issuableId.id);
    if (!tracked) throw notFound();
    await addSpentTime(ctx, tracked, { duration: timeSpent, summary, spent_at: spentAt }, 'timeSpent');
    const [timelog] =
      (await listTimelogsBelow(ctx, tracked.kind).rows([tracked.row.id], { limit: 1, backwards: true })).get(
        tracked.row.id,
      ) ?? [];
    return { timelog };
  },
});

mutationField('timelogDelete', {
  description: 'Deletes a logged time. For its author, and Maintainers.',
  input: (t) => ({ id: t.field({ type: 'TimelogID', required: true }) }),
  payload: { timelog: Timelog },
  run: async (ctx, { id }) => {
    const timelog = await findTimelog(ctx, id);
    const kind = timelog?.issue_id == null ? 'merge_request' : 'issue';
    const tracked = timelog && (await findTracked(ctx, kind, timelog.issue_id ?? timelog.merge_request_id ?? 0));
    if (!tracked) throw notFound();
    await removeTimelog(ctx, tracked, timelog);
    return { timelog };
  },
});

const named = (t: InputFields) => ({
  projectPath: t.id({ required: true }),
  iid: t.string({ required: true }),
  subscribedState: t.boolean({ required: true }),
});

const setSubscribed = async (
  ctx: Context,
  kind: TrackedKind,
  input: { readonly projectPath: string; readonly iid: string; readonly subscribedState: boolean },
) => {
  if (!/^\d{1,10}$/.test(input.iid)) throw notFound();
  const tracked = await getTracked(ctx, await getProject(ctx, { path: input.projectPath }), kind, Number(input.iid));
  await subscribe(ctx, kind, tracked.row, input.subscribedState);
  return tracked;
};

mutationField('issueSetSubscription', {
  description: 'Subscribes the caller to an issue, or unsubscribes them.',
  input: named,
  payload: { issue: IssueRef },
  run: async (ctx, input) => {
    const tracked = await setSubscribed(ctx, 'issue', input);
    return tracked.kind === 'issue' ? { issue: tracked.row } : {};
  },
});

mutationField('mergeRequestSetSubscription', {
  description: 'Subscribes the caller to a merge request, or unsubscribes them.',
  input: named,
  payload: { mergeRequest: MergeRequestRef },
  run: async (ctx, input) => {
    const tracked = await setSubscribed(ctx, 'merge_request', input);
    return tracked.kind === 'merge_request' ? { mergeRequest: tracked.row } : {};
  },
});
