import { IssueRef } from '#domains/issues/graphql.ts';
import { DiffRefs, MergeRequestRef } from '#domains/merge-requests/graphql.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import { notFound } from '#platform/errors.ts';
import { startThread } from '../commenting.ts';
import {
  discussionStartsByNoteIds,
  getDiscussionById,
  listDiscussionsBelow,
  listNotesOfDiscussions,
  resolutionsByNoteIds,
} from '../discussions.ts';
import { NoteConnection, NoteRef } from '../graphql.ts';
import type { NoteableKind } from '../noteable.ts';
import { POSITION_TYPES, type Position, readPosition } from '../positions/model.ts';
import type { NoteRow } from '../queries.ts';
import { resolveDiscussion } from '../resolving.ts';
import { noteableByModel } from './noteable.ts';

const loadResolution = loader(resolutionsByNoteIds);
const loadStart = loader(discussionStartsByNoteIds);
const notesOf = batchedConnection((ctx, _args: ConnectionArguments) => listNotesOfDiscussions(ctx));

/** A discussion, by its first comment. */
const DiscussionRef = builder.objectRef<NoteRow>('Discussion').implement({
  description: 'A comment with its replies, or a single comment.',
  fields: (t) => ({
    id: t.field({ type: 'DiscussionID', nullable: false, resolve: ({ discussion_id }) => discussion_id }),
    replyId: t.field({
      type: 'DiscussionID',
      nullable: false,
      description: 'The id for replies. The same as `id`.',
      resolve: ({ discussion_id }) => discussion_id,
    }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    resolvable: t.boolean({
      nullable: false,
      resolve: async ({ id }, _args, ctx) => (await loadResolution(ctx, id))?.resolvable ?? false,
    }),
    resolved: t.boolean({
      nullable: false,
      resolve: async ({ id }, _args, ctx) => (await loadResolution(ctx, id))?.resolved ?? false,
    }),
    resolvedAt: t.field({
      type: 'Time',
      resolve: async ({ id }, _args, ctx) => (await loadResolution(ctx, id))?.resolved_at ?? null,
    }),
    resolvedBy: t.field({
      type: UserRef,
      resolve: async ({ id }, _args, ctx) => {
        const userId = (await loadResolution(ctx, id))?.resolved_by_id ?? null;
        return userId === null ? null : loadUser(ctx, userId);
      },
    }),
    notes: t.connection(
      {
        type: NoteRef,
        nullable: false,
        extensions: { usualSize: 10 },
        resolve: ({ id }, args, ctx, info) => notesOf(id, args, ctx, info),
      },
      NoteConnection,
    ),
  }),
});
const DiscussionConnection = builder.connectionObject(
  { type: DiscussionRef, name: 'DiscussionConnection' },
  { name: 'DiscussionEdge' },
);

const discussionsOf = (kind: NoteableKind) =>
  batchedConnection((ctx, _args: ConnectionArguments) => listDiscussionsBelow(ctx, kind));
const issueDiscussions = discussionsOf('issue');
const mergeRequestDiscussions = discussionsOf('merge_request');

builder.objectField(IssueRef, 'discussions', (t) =>
  t.connection(
    { type: DiscussionRef, resolve: ({ id }, args, ctx, info) => issueDiscussions(id, args, ctx, info) },
    DiscussionConnection,
  ),
);
builder.objectField(MergeRequestRef, 'discussions', (t) =>
  t.connection(
    { type: DiscussionRef, resolve: ({ id }, args, ctx, info) => mergeRequestDiscussions(id, args, ctx, info) },
    DiscussionConnection,
  ),
);
builder.objectField(NoteRef, 'discussion', (t) =>
  t.field({ type: DiscussionRef, resolve: ({ id }, _args, ctx) => loadStart(ctx, id) }),
);

const DiffPositionType = builder.enumType('DiffPositionType', { values: POSITION_TYPES });

const lineOf = (position: Position, side: 'old_line' | 'new_line'): number | null =>
  position.position_type === 'text' ? position[side] : null;
const pixelsOf = (position: Position, name: 'width' | 'height' | 'x' | 'y'): number | null =>
  position.position_type === 'image' ? position[name] : null;

const DiffPosition = builder.objectRef<Position>('DiffPosition').implement({
  description: 'The place in a diff that a comment is on.',
  fields: (t) => ({
    diffRefs: t.field({
      type: DiffRefs,
      nullable: false,
      resolve: ({ base_sha, start_sha, head_sha }) => ({
        base_commit_sha: base_sha,
        start_commit_sha: start_sha,
        head_commit_sha: head_sha,
      }),
    }),
    positionType: t.field({
      type: DiffPositionType,
      nullable: false,
      resolve: ({ position_type }) => position_type,
    }),
    filePath: t.exposeString('new_path', { nullable: false }),
    oldPath: t.exposeString('old_path'),
    newPath: t.exposeString('new_path'),
    oldLine: t.int({ resolve: (position) => lineOf(position, 'old_line') }),
    newLine: t.int({ resolve: (position) => lineOf(position, 'new_line') }),
    width: t.int({ resolve: (position) => pixelsOf(position, 'width') }),
    height: t.int({ resolve: (position) => pixelsOf(position, 'height') }),
    x: t.int({ resolve: (position) => pixelsOf(position, 'x') }),
    y: t.int({ resolve: (position) => pixelsOf(position, 'y') }),
  }),
});

builder.objectField(NoteRef, 'position', (t) =>
  t.field({ type: DiffPosition, resolve: ({ position }) => readPosition(position) }),
);

const DiffPathsInput = builder.inputType('DiffPathsInput', {
  description: 'At least one path is required.',
  fields: (t) => ({ oldPath: t.string(), newPath: t.string() }),
});

const DiffPositionInput = builder.inputType('DiffPositionInput', {
  description: 'A line of a diff: `newLine` for an added one, `oldLine` for a removed one, both for an unchanged one.',
  fields: (t) => ({
    headSha: t.string({ required: true }),
    baseSha: t.string({ required: true }),
    startSha: t.string({ required: true }),
    paths: t.field({ type: DiffPathsInput, required: true }),
    oldLine: t.int(),
    newLine: t.int(),
  }),
});

const DiffImagePositionInput = builder.inputType('DiffImagePositionInput', {
  description: 'A place in a picture of a diff.',
  fields: (t) => ({
    headSha: t.string({ required: true }),
    baseSha: t.string({ required: true }),
    startSha: t.string({ required: true }),
    paths: t.field({ type: DiffPathsInput, required: true }),
    width: t.int({ required: true }),
    height: t.int({ required: true }),
    x: t.int({ required: true }),
    y: t.int({ required: true }),
  }),
});

interface GivenPlace {
  readonly headSha: string;
  readonly baseSha: string;
  readonly startSha: string;
  readonly paths: { readonly oldPath?: string | null | undefined; readonly newPath?: string | null | undefined };
}

const placeOf = ({ headSha, baseSha, startSha, paths }: GivenPlace) => ({
  head_sha: headSha,
  base_sha: baseSha,
  start_sha: startSha,
  old_path: paths.oldPath,
  new_path: paths.newPath,
});

mutationField('createDiscussion', {
  description: 'Starts a discussion on an issue or merge request.',
  input: (t) => ({
    noteableId: t.field({ type: 'NoteableID', required: true }),
    body: t.string({ required: true }),
    internal: t.boolean({ description: 'For Reporters and above only.' }),
  }),
  payload: { note: NoteRef },
  run: async (ctx, { noteableId, body, internal }) => {
    const noteable = await noteableByModel(ctx, noteableId);
    const { note } = await startThread(ctx, noteable, { body, internal: internal ?? undefined });
    return { note };
  },
});

mutationField('createDiffNote', {
  description: 'Starts a discussion on a line of the diff of a merge request.',
  input: (t) => ({
    noteableId: t.field({ type: 'NoteableID', required: true }),
    body: t.string({ required: true }),
    position: t.field({ type: DiffPositionInput, required: true }),
    internal: t.boolean({ description: 'For Reporters and above only.' }),
  }),
  payload: { note: NoteRef },
  run: async (ctx, { noteableId, body, position, internal }) => {
    const { oldLine: old_line, newLine: new_line } = position;
    const place = { ...placeOf(position), position_type: 'text', old_line, new_line } as const;
    const noteable = await noteableByModel(ctx, noteableId);
    const { note } = await startThread(ctx, noteable, { body, internal: internal ?? undefined, position: place });
    return { note };
  },
});

mutationField('createImageDiffNote', {
  description: 'Starts a discussion on a place in a picture of the diff of a merge request.',
  input: (t) => ({
    noteableId: t.field({ type: 'NoteableID', required: true }),
    body: t.string({ required: true }),
    position: t.field({ type: DiffImagePositionInput, required: true }),
    internal: t.boolean({ description: 'For Reporters and above only.' }),
  }),
  payload: { note: NoteRef },
  run: async (ctx, { noteableId, body, position, internal }) => {
    const { width, height, x, y } = position;
    const place = { ...placeOf(position), position_type: 'image', width, height, x, y } as const;
    const noteable = await noteableByModel(ctx, noteableId);
    const { note } = await startThread(ctx, noteable, { body, internal: internal ?? undefined, position: place });
    return { note };
  },
});

mutationField('discussionToggleResolve', {
  description: 'Resolves a discussion on a merge request, or makes it unresolved.',
  input: (t) => ({
    id: t.field({ type: 'DiscussionID', required: true }),
    resolve: t.boolean({ required: true }),
  }),
  payload: { discussion: DiscussionRef },
  run: async (ctx, { id, resolve }) => {
    const { noteable } = await getDiscussionById(ctx, id);
    const { notes } = await resolveDiscussion(ctx, noteable, id, resolve);
    const [start] = notes;
    if (!start) throw notFound('Discussion');
    return { discussion: start };
  },
});
