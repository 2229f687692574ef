import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { readPage } from '#platform/paging.ts';
import { boolean, dateTime, idOrPath, integer, oneOf, text } from '#rest/params.ts';
import { listRoute, type Route, route, TEXT_BODY_BYTES } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { deleteNote, updateNote } from './commands.ts';
import { comment } from './commenting.ts';
import { getNoteable, type Noteable, type NoteableKind } from './noteable.ts';
import { getNote, listNotes, NOTE_ORDERS } from './queries.ts';
import { noteRecord, quickActionsRecord, toNote, toNotes, toQuickActions } from './record.ts';
import { commitRoutes } from './rest/commits.ts';
import { discussionRoutes } from './rest/discussions.ts';
import { draftRoutes } from './rest/drafts.ts';
import { suggestionRoutes } from './rest/suggestions.ts';

const tag = 'Notes';

const noteables = { id: idOrPath(), noteable_iid: integer() };
const one = { ...noteables, note_id: integer() };

/** The routes of issues and merge requests differ only in their place. */
const routesOf = (kind: NoteableKind, path: 'issues' | 'merge_requests'): Route[] => {
  const what = kind === 'issue' ? 'an issue' : 'a merge request';
  const find = async (
    ctx: Context,
    { id, noteable_iid }: { readonly id: IdOrPath; readonly noteable_iid: number },
  ): Promise<Noteable> => getNoteable(ctx, await getProject(ctx, id), kind, noteable_iid);
  // The reference names comments on merge requests only.
  const forJobs = kind === 'merge_request' ? { jobTokens: true as const } : {};
  return [
    listRoute({
      path: `/projects/:id/${path}/:noteable_iid/notes`,
      tag,
      summary: `List the comments on ${what}`,
      auth: 'optional',
      ...forJobs,
      paging: 'offset',
      input: {
        ...noteables,
        order_by: oneOf(NOTE_ORDERS).default('created_at'),
        sort: oneOf(['asc', 'desc']).default('desc'),
        activity_filter: oneOf(['all_notes', 'only_comments', 'only_activity']).default('all_notes'),
      },
      item: noteRecord,
      run: async (ctx, { order_by, sort, activity_filter, ...place }, page) => {
        const noteable = await find(ctx, place);
        const activity = activity_filter === 'all_notes' ? null : activity_filter;
        const found = await readPage(listNotes(ctx, noteable, { order_by, sort, activity }), page);
        return { ...found, items: await toNotes(ctx, noteable, found.items) };
      },
    }),
    route({
      method: 'GET',
      path: `/projects/:id/${path}/:noteable_iid/notes/:note_id`,
      tag,
      summary: `Get a comment on ${what}`,
      auth: 'optional',
      ...forJobs,
      input: one,
      response: noteRecord,
      run: async (ctx, { note_id, ...place }) => {
        const noteable = await find(ctx, place);
        return toNote(ctx, noteable, await getNote(ctx, noteable, note_id));
      },
    }),
    route({
      method: 'POST',
      path: `/projects/:id/${path}/:noteable_iid/notes`,
      tag,
      summary: `Comment on ${what}`,
      description:
        'Internal comments are for Reporters and above. `confidential` is the older name of `internal`. Quick actions in the text run and vanish. If nothing else is left, the answer is 202 with what they changed.',
      maxBodyBytes: TEXT_BODY_BYTES,
      input: {
        ...noteables,
        body: text(),
        internal: boolean().optional(),
        confidential: boolean().optional(),
        created_at: dateTime().optional(),
      },
      response: z.union([noteRecord, quickActionsRecord]),
      run: async (ctx, { body, internal, confidential, created_at, ...place }, http) => {
        const noteable = await find(ctx, place);
        const made = await comment(ctx, noteable, { body, internal: internal ?? confidential, created_at });
        if (made.note) return toNote(ctx, noteable, made.note, made.changes);
        http.setStatus(202);
        return toQuickActions(made.changes);
      },
    }),
    route({
      method: 'PUT',
      path: `/projects/:id/${path}/:noteable_iid/notes/:note_id`,
      tag,
      summary: `Change a comment on ${what}`,
      maxBodyBytes: TEXT_BODY_BYTES,
      input: { ...one, body: text() },
      response: noteRecord,
      run: async (ctx, { body, note_id, ...place }) => {
        const noteable = await find(ctx, place);
        const note = await getNote(ctx, noteable, note_id);
        return toNote(ctx, noteable, await updateNote(ctx, noteable, note, body));
      },
    }),
    route({
      method: 'DELETE',
      path: `/projects/:id/${path}/:noteable_iid/notes/:note_id`,
      tag,
      summary: `Delete a comment on ${what}`,
      refusals: MODIFIED,
      input: one,
      response: null,
      run: async (ctx, { note_id, ...place }, http) => {
        const noteable = await find(ctx, place);
        await deleteNote(ctx, noteable, await getNote(ctx, noteable, note_id), unmodifiedSince(http));
      },
    }),
  ];
};

export const routes = [
  ...routesOf('issue', 'issues'),
  ...routesOf('merge_request', 'merge_requests'),
  ...discussionRoutes,
  ...draftRoutes,
  ...suggestionRoutes,
  ...commitRoutes,
] satisfies readonly Route[];
