import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { badRequest } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { readPage } from '#platform/paging.ts';
import { atLeastOneOf, boolean, dateTime, exclusive, idOrPath, integer, text } from '#rest/params.ts';
import { type Exchange, listRoute, type Route, route, TEXT_BODY_BYTES } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { deleteNote, updateNote } from '../commands.ts';
import { type Commented, comment, startThread } from '../commenting.ts';
import { completeDiscussions, getDiscussion, getNoteIn, listDiscussions } from '../discussions.ts';
import { getNoteable, type Noteable, type NoteableKind } from '../noteable.ts';
import {
  discussionRecord,
  noteRecord,
  quickActionsRecord,
  toDiscussion,
  toDiscussions,
  toNote,
  toNotes,
  toQuickActions,
} from '../record.ts';
import { resolveDiscussion, resolveNote } from '../resolving.ts';
import { position } from './position.ts';

const tag = 'Notes';
const noteables = { id: idOrPath(), noteable_iid: integer() };
const inDiscussion = { ...noteables, discussion_id: text({ max: 255 }) };
const oneNote = { ...inDiscussion, note_id: integer() };

interface NoteableInput {
  readonly id: IdOrPath;
  readonly noteable_iid: number;
}

/** The discussions of issues and merge requests. Only those of merge requests have positions and are resolved. */
const routesOf = (kind: NoteableKind, path: 'issues' | 'merge_requests'): Route[] => {
  const what = kind === 'issue' ? 'an issue' : 'a merge request';
  const all = `/projects/:id/${path}/:noteable_iid/discussions` as const;
  const one = `${all}/:discussion_id` as const;
  const find = (ctx: Context, input: NoteableInput) => findIn(ctx, kind, input);
  return [
    listRoute({
      path: all,
      tag,
      summary: `List the discussions on ${what}`,
      description:
        'Oldest first. A single comment without replies counts as a discussion with `individual_note`, a system note too.',
      auth: 'optional',
      paging: 'offset',
      input: noteables,
      item: discussionRecord,
      run: async (ctx, place, page) => {
        const noteable = await find(ctx, place);
        const found = await readPage(listDiscussions(ctx, noteable), page);
        const discussions = await completeDiscussions(ctx, noteable, found.items);
        return { ...found, items: await toDiscussions(ctx, noteable, discussions) };
      },
    }),
    route({
      method: 'GET',
      path: one,
      tag,
      summary: `Get a discussion on ${what}`,
      auth: 'optional',
      input: inDiscussion,
      response: discussionRecord,
      run: async (ctx, { discussion_id, ...place }) => {
        const noteable = await find(ctx, place);
        return toDiscussion(ctx, noteable, await getDiscussion(ctx, noteable, discussion_id));
      },
    }),
    route({
      method: 'GET',
      path: `${one}/notes`,
      tag,
      summary: `List the comments of a discussion on ${what}`,
      auth: 'optional',
      input: inDiscussion,
      response: z.array(noteRecord),
      run: async (ctx, { discussion_id, ...place }) => {
        const noteable = await find(ctx, place);
        return toNotes(ctx, noteable, (await getDiscussion(ctx, noteable, discussion_id)).notes);
      },
    }),
    route({
      method: 'POST',
      path: `${one}/notes`,
      tag,
      summary: `Reply to a discussion on ${what}`,
      description:
        'A reply turns a single comment into a discussion. `created_at` is for owners only. Quick actions in the text run and vanish. If nothing else is left, the answer is 202 with what they changed.',
      maxBodyBytes: TEXT_BODY_BYTES,
      input: { ...inDiscussion, body: text(), created_at: dateTime().optional() },
      response: z.union([noteRecord, quickActionsRecord]),
      run: async (ctx, { discussion_id, body, created_at, ...place }, http) => {
        const noteable = await find(ctx, place);
        const made = await comment(ctx, noteable, { body, created_at, discussion_id });
        if (made.note) return toNote(ctx, noteable, made.note, made.changes);
        http.setStatus(202);
        return toQuickActions(made.changes);
      },
    }),
    route({
      method: 'GET',
      path: `${one}/notes/:note_id`,
      tag,
      summary: `Get a comment of a discussion on ${what}`,
      auth: 'optional',
      input: oneNote,
      response: noteRecord,
      run: async (ctx, { discussion_id, note_id, ...place }) => {
        const noteable = await find(ctx, place);
        return toNote(ctx, noteable, await getNoteIn(ctx, noteable, discussion_id, note_id));
      },
    }),
    route({
      method: 'DELETE',
      path: `${one}/notes/:note_id`,
      tag,
      summary: `Delete a comment of a discussion on ${what}`,
      refusals: MODIFIED,
      input: oneNote,
      response: null,
      run: async (ctx, { discussion_id, note_id, ...place }, http) => {
        const noteable = await find(ctx, place);
        await deleteNote(ctx, noteable, await getNoteIn(ctx, noteable, discussion_id, note_id), unmodifiedSince(http));
      },
    }),
  ];
};

const findIn = async (ctx: Context, kind: NoteableKind, { id, noteable_iid }: NoteableInput): Promise<Noteable> =>
  getNoteable(ctx, await getProject(ctx, id), kind, noteable_iid);

/** A new discussion, or what the quick actions changed that were all of its text. */
const startedRecord = z.union([discussionRecord, quickActionsRecord]);

const toStarted = async (
  ctx: Context,
  noteable: Noteable,
  made: Commented,
  http: Exchange,
): Promise<z.output<typeof startedRecord>> => {
  if (made.note) return toDiscussion(ctx, noteable, { id: made.note.discussion_id, notes: [made.note] });
  http.setStatus(202);
  return toQuickActions(made.changes);
};

const startOnIssue = route({
  method: 'POST',
  path: '/projects/:id/issues/:noteable_iid/discussions',
  tag,
  summary: 'Start a discussion on an issue',
  description: '`created_at` is for owners, `internal` for Reporters and above.',
  maxBodyBytes: TEXT_BODY_BYTES,
  input: { ...noteables, body: text(), internal: boolean().optional(), created_at: dateTime().optional() },
  response: startedRecord,
  run: async (ctx, { body, internal, created_at, ...place }, http) => {
    const noteable = await findIn(ctx, 'issue', place);
    return toStarted(ctx, noteable, await startThread(ctx, noteable, { body, internal, created_at }), http);
  },
});

const startOnMergeRequest = route({
  method: 'POST',
  path: '/projects/:id/merge_requests/:noteable_iid/discussions',
  tag,
  summary: 'Start a discussion on a merge request',
  description:
    'With `position`, on a line of its diff: `new_line` for an added line, `old_line` for a removed one, both for an unchanged one. `commit_id` names a commit of the merge request, `created_at` is for owners, `internal` for Reporters and above.',
  maxBodyBytes: TEXT_BODY_BYTES,
  input: {
    ...noteables,
    body: text(),
    internal: boolean().optional(),
    created_at: dateTime().optional(),
    commit_id: text({ max: 64 }).nullish(),
    position: position.nullish(),
  },
  response: startedRecord,
  run: async (ctx, { body, internal, created_at, commit_id, position, ...place }, http) => {
    const noteable = await findIn(ctx, 'merge_request', place);
    const made = await startThread(ctx, noteable, {
      body,
      internal,
      created_at,
      commit_id: commit_id || undefined,
      position: position ?? undefined,
    });
    return toStarted(ctx, noteable, made, http);
  },
});

const changeOnIssue = route({
  method: 'PUT',
  path: '/projects/:id/issues/:noteable_iid/discussions/:discussion_id/notes/:note_id',
  tag,
  summary: 'Change a comment of a discussion on an issue',
  maxBodyBytes: TEXT_BODY_BYTES,
  input: { ...oneNote, body: text() },
  response: noteRecord,
  run: async (ctx, { discussion_id, note_id, body, ...place }) => {
    const noteable = await findIn(ctx, 'issue', place);
    const note = await getNoteIn(ctx, noteable, discussion_id, note_id);
    return toNote(ctx, noteable, await updateNote(ctx, noteable, note, body));
  },
});

const changeOnMergeRequest = route({
  method: 'PUT',
  path: '/projects/:id/merge_requests/:noteable_iid/discussions/:discussion_id/notes/:note_id',
  tag,
  summary: 'Change or resolve a comment of a discussion on a merge request',
  maxBodyBytes: TEXT_BODY_BYTES,
  input: { ...oneNote, body: text().optional(), resolved: boolean().optional() },
  rules: [exclusive('body', 'resolved'), atLeastOneOf('body', 'resolved')],
  response: noteRecord,
  run: async (ctx, { discussion_id, note_id, body, resolved, ...place }) => {
    const noteable = await findIn(ctx, 'merge_request', place);
    const note = await getNoteIn(ctx, noteable, discussion_id, note_id);
    if (resolved !== undefined) return toNote(ctx, noteable, await resolveNote(ctx, noteable, note, resolved));
    if (body === undefined) throw badRequest('body is missing');
    return toNote(ctx, noteable, await updateNote(ctx, noteable, note, body));
  },
});

export const discussionRoutes = [
  ...routesOf('issue', 'issues'),
  ...routesOf('merge_request', 'merge_requests'),
  startOnIssue,
  startOnMergeRequest,
  changeOnIssue,
  changeOnMergeRequest,
  route({
    method: 'PUT',
    path: '/projects/:id/merge_requests/:noteable_iid/discussions/:discussion_id',
    tag,
    summary: 'Resolve a discussion on a merge request, or make it unresolved',
    description: 'For Developers and the author of the merge request.',
    input: { ...inDiscussion, resolved: boolean() },
    response: discussionRecord,
    run: async (ctx, { id, noteable_iid, discussion_id, resolved }) => {
      const noteable = await findIn(ctx, 'merge_request', { id, noteable_iid });
      return toDiscussion(ctx, noteable, await resolveDiscussion(ctx, noteable, discussion_id, resolved));
    },
  }),
] satisfies readonly Route[];
