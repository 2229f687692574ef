import { IssueRef } from '#domains/issues/graphql.ts';
import { MergeRequestRef } from '#domains/merge-requests/graphql.ts';
import { NoteRef } from '#domains/notes/graphql.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder, type InputFields } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import type { ModelId } from '#graphql/ids.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { addAward, removeOwnAward, toggleAward } from './commands.ts';
import type { AwardableKind, AwardRow } from './model.ts';
import { getAwardableById, listAwardsBelow } from './queries.ts';

const AwardEmoji = builder.objectRef<AwardRow>('AwardEmoji').implement({
  description: 'An emoji reaction of a user.',
  fields: (t) => ({
    name: t.exposeString('name', { nullable: false }),
    user: t.field({ type: UserRef, nullable: true, resolve: ({ user_id }, _args, ctx) => loadUser(ctx, user_id) }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
  }),
});

const AwardEmojiConnection = builder.connectionObject(
  { type: AwardEmoji, name: 'AwardEmojiConnection' },
  { name: 'AwardEmojiEdge' },
);

const awardsOf = (kind: AwardableKind) =>
  batchedConnection((ctx, _args: ConnectionArguments) => listAwardsBelow(ctx, kind));
const issueAwards = awardsOf('issue');
const mergeRequestAwards = awardsOf('merge_request');
const noteAwards = awardsOf('note');

builder.objectField(IssueRef, 'awardEmoji', (t) =>
  t.connection(
    {
      type: AwardEmoji,
      nullable: true,
      resolve: ({ id }, args, ctx, info) => issueAwards(id, args, ctx, info),
    },
    AwardEmojiConnection,
  ),
);
builder.objectField(MergeRequestRef, 'awardEmoji', (t) =>
  t.connection(
    {
      type: AwardEmoji,
      nullable: true,
      resolve: ({ id }, args, ctx, info) => mergeRequestAwards(id, args, ctx, info),
    },
    AwardEmojiConnection,
  ),
);
builder.objectField(NoteRef, 'awardEmoji', (t) =>
  t.connection(
    {
      type: AwardEmoji,
      nullable: true,
      resolve: ({ id }, args, ctx, info) => noteAwards(id, args, ctx, info),
    },
    AwardEmojiConnection,
  ),
);

const KINDS: Readonly<Record<string, AwardableKind>> = { Issue: 'issue', MergeRequest: 'merge_request', Note: 'note' };

const find = (ctx: Context, { model, id }: ModelId) => getAwardableById(ctx, KINDS[model] ?? 'issue', id);

const input = (t: InputFields) => ({
  awardableId: t.field({ type: 'AwardableID', required: true }),
  name: t.string({ required: true }),
});

mutationField('awardEmojiAdd', {
  description: 'Adds an emoji to an issue, a merge request or a comment.',
  input,
  payload: { awardEmoji: AwardEmoji },
  run: async (ctx, { awardableId, name }) => ({ awardEmoji: await addAward(ctx, await find(ctx, awardableId), name) }),
});

mutationField('awardEmojiRemove', {
  description: "Removes the caller's own emoji.",
  input,
  payload: { awardEmoji: AwardEmoji },
  run: async (ctx, { awardableId, name }) => ({
    awardEmoji: await removeOwnAward(ctx, await find(ctx, awardableId), name),
  }),
});

mutationField('awardEmojiToggle', {
  description: 'Adds an emoji, or removes it if the caller has already added it.',
  input,
  payload: { awardEmoji: AwardEmoji, toggledOn: 'Boolean' },
  run: async (ctx, { awardableId, name }) => {
    const awardEmoji = await toggleAward(ctx, await find(ctx, awardableId), name);
    return { awardEmoji, toggledOn: awardEmoji !== null };
  },
});
