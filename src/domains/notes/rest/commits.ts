import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { badRequest } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { readPage } from '#platform/paging.ts';
import { only } from '#platform/values/only.ts';
import { allOrNoneOf, dateTime, hash, idOrPath, integer, oneOf, text } from '#rest/params.ts';
import { listRoute, type Route, route, TEXT_BODY_BYTES } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { deleteNote, updateNote } from '../commands.ts';
import { createCommitComment } from '../commits.ts';
import { completeDiscussions, getDiscussion, getNoteIn, listDiscussions } from '../discussions.ts';
import { getNoteableCommit, type NoteableCommit } from '../noteable.ts';
import { listNotes } from '../queries.ts';
import {
  commitCommentRecord,
  discussionRecord,
  noteRecord,
  toCommitComments,
  toDiscussion,
  toDiscussions,
  toNote,
  toNotes,
} from '../record.ts';

const tag = 'Notes';
const onCommit = { id: idOrPath(), sha: text({ max: 1_000 }) };
const line = integer({ min: 1, max: 2 ** 31 - 1 });
const path = text({ max: 4_096 });
const discussion_id = text({ max: 100 });
const inDiscussion = { ...onCommit, discussion_id };
const oneNote = { ...inDiscussion, note_id: integer() };
const oid = text({ max: 64 });

const position = hash({
  position_type: oneOf(['text']),
  base_sha: oid.optional(),
  start_sha: oid.optional(),
  head_sha: oid.optional(),
  new_path: path.optional(),
  old_path: path.optional(),
  new_line: line.optional(),
  old_line: line.optional(),
});

const find = async (
  ctx: Context,
  { id, sha }: { readonly id: IdOrPath; readonly sha: string },
): Promise<NoteableCommit> => getNoteableCommit(ctx, await getProject(ctx, id), sha);

export const commitRoutes = [
  listRoute({
    path: '/projects/:id/repository/commits/:sha/comments',
    tag,
    summary: 'List the comments on a commit',
    description: 'Oldest first.',
    auth: 'optional',
    paging: 'offset',
    input: onCommit,
    item: commitCommentRecord,
    run: async (ctx, { id, sha }, page) => {
      const commit = await find(ctx, { id, sha });
      const found = await readPage(listNotes(ctx, commit, { activity: 'only_comments', sort: 'asc' }), page);
      return { ...found, items: await toCommitComments(ctx, found.items) };
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/repository/commits/:sha/comments',
    tag,
    summary: 'Comment on a commit',
    description:
      'Comments on the whole commit, or with `path` and `line`, on a line of a file: in the commit, or with `line_type` `old`, in its first parent.',
    maxBodyBytes: TEXT_BODY_BYTES,
    input: {
      ...onCommit,
      note: text(),
      path: path.optional(),
      line: line.optional(),
      line_type: oneOf(['new', 'old']).optional(),
    },
    rules: [allOrNoneOf('path', 'line')],
    response: commitCommentRecord,
    run: async (ctx, { id, sha, note, path, line, line_type }) => {
      if (line_type !== undefined && path === undefined) throw badRequest('line_type requires path and line');
      const isOld = line_type === 'old';
      const on =
        path === undefined ? null : isOld ? { old_path: path, old_line: line } : { new_path: path, new_line: line };
      const made = await createCommitComment(ctx, await find(ctx, { id, sha }), { body: note, on });
      return only(await toCommitComments(ctx, [made]));
    },
  }),
  listRoute({
    path: '/projects/:id/repository/commits/:sha/discussions',
    tag,
    summary: 'List the discussions on a commit',
    description: 'Oldest first. A single comment without replies counts as a discussion with `individual_note`.',
    auth: 'optional',
    paging: 'offset',
    input: onCommit,
    item: discussionRecord,
    run: async (ctx, place, page) => {
      const commit = await find(ctx, place);
      const found = await readPage(listDiscussions(ctx, commit), page);
      const discussions = await completeDiscussions(ctx, commit, found.items);
      return { ...found, items: await toDiscussions(ctx, commit, discussions) };
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/repository/commits/:sha/discussions/:discussion_id',
    tag,
    summary: 'Get a discussion on a commit',
    auth: 'optional',
    input: inDiscussion,
    response: discussionRecord,
    run: async (ctx, { discussion_id, ...place }) => {
      const commit = await find(ctx, place);
      return toDiscussion(ctx, commit, await getDiscussion(ctx, commit, discussion_id));
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/repository/commits/:sha/discussions',
    tag,
    summary: 'Start a discussion on a commit',
    description:
      'Discusses the whole commit, or with `position`, a line of a file: `new_line` in the commit, `old_line` in its first parent. `created_at` is for owners only.',
    maxBodyBytes: TEXT_BODY_BYTES,
    input: { ...onCommit, body: text(), created_at: dateTime().optional(), position: position.optional() },
    response: discussionRecord,
    run: async (ctx, { body, created_at, position, ...place }) => {
      const commit = await find(ctx, place);
      const note = await createCommitComment(ctx, commit, {
        body,
        created_at,
        begins_discussion: true,
        on: position ?? null,
      });
      return toDiscussion(ctx, commit, { id: note.discussion_id, notes: [note] });
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/repository/commits/:sha/discussions/:discussion_id/notes',
    tag,
    summary: 'List the comments of a discussion on a commit',
    auth: 'optional',
    input: inDiscussion,
    response: z.array(noteRecord),
    run: async (ctx, { discussion_id, ...place }) => {
      const commit = await find(ctx, place);
      return toNotes(ctx, commit, (await getDiscussion(ctx, commit, discussion_id)).notes);
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/repository/commits/:sha/discussions/:discussion_id/notes',
    tag,
    summary: 'Reply to a discussion on a commit',
    maxBodyBytes: TEXT_BODY_BYTES,
    input: { ...inDiscussion, body: text(), created_at: dateTime().optional() },
    response: noteRecord,
    run: async (ctx, { discussion_id, body, created_at, ...place }) => {
      const commit = await find(ctx, place);
      const note = await createCommitComment(ctx, commit, { body, created_at, discussion_id, on: null });
      return toNote(ctx, commit, note);
    },
  }),
  route({
    method: 'GET',
    path: '/projects/:id/repository/commits/:sha/discussions/:discussion_id/notes/:note_id',
    tag,
    summary: 'Get a comment of a discussion on a commit',
    auth: 'optional',
    input: oneNote,
    response: noteRecord,
    run: async (ctx, { discussion_id, note_id, ...place }) => {
      const commit = await find(ctx, place);
      return toNote(ctx, commit, await getNoteIn(ctx, commit, discussion_id, note_id));
    },
  }),
  route({
    method: 'PUT',
    path: '/projects/:id/repository/commits/:sha/discussions/:discussion_id/notes/:note_id',
    tag,
    summary: 'Change a comment of a discussion on a commit',
    maxBodyBytes: TEXT_BODY_BYTES,
    input: { ...oneNote, body: text() },
    response: noteRecord,
    run: async (ctx, { discussion_id, note_id, body, ...place }) => {
      const commit = await find(ctx, place);
      const note = await getNoteIn(ctx, commit, discussion_id, note_id);
      return toNote(ctx, commit, await updateNote(ctx, commit, note, body));
    },
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/repository/commits/:sha/discussions/:discussion_id/notes/:note_id',
    tag,
    summary: 'Delete a comment of a discussion on a commit',
    refusals: MODIFIED,
    input: oneNote,
    response: null,
    run: async (ctx, { discussion_id, note_id, ...place }, http) => {
      const commit = await find(ctx, place);
      await deleteNote(ctx, commit, await getNoteIn(ctx, commit, discussion_id, note_id), unmodifiedSince(http));
    },
  }),
] satisfies readonly Route[];
