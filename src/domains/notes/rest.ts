import { getProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { badRequest, notFound } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { readPage } from '#platform/paging.ts';
import { allOrNoneOf, boolean, dateTime, idOrPath, integer, oneOf, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { createNote, deleteNote, updateNote } from './commands.ts';
import { createCommitComment, listCommitComments } from './commits.ts';
import { getNoteable, type Noteable, type NoteableKind } from './noteable.ts';
import { getNote, listNotes } from './queries.ts';
import { commitCommentRecord, noteRecord, toCommitComments, toNote, toNotes } from './record.ts';

const tag = 'Notes';
const noteables = { id: idOrPath(), noteable_iid: integer() };
const one = { ...noteables, note_id: integer() };

/** The routes of issues and merge requests differ by nothing but where they are. */
const routesOf = (kind: NoteableKind, path: 'issues' | 'merge_requests'): Route[] => {
  const what = kind === 'issue' ? 'an issue' : 'a merge request';
  const find = async (
    ctx: Context,
    { id, noteable_iid }: { readonly id: IdOrPath; readonly noteable_iid: number },
  ): Promise<Noteable> => getNoteable(ctx, await getProject(ctx, id), kind, noteable_iid);
  return [
    listRoute({
      path: `/projects/:id/${path}/:noteable_iid/notes`,
      tag,
      summary: `List the comments on ${what}`,
      auth: 'optional',
      paging: 'offset',
      input: {
        ...noteables,
        order_by: oneOf(['created_at', 'updated_at']).default('created_at'),
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
      description: 'Internal comments are for Reporters and above; `confidential` is the older name.',
      input: {
        ...noteables,
        body: text(),
        internal: boolean().optional(),
        confidential: boolean().optional(),
        created_at: dateTime().optional(),
      },
      response: noteRecord,
      run: async (ctx, { body, internal, confidential, created_at, ...place }) => {
        const noteable = await find(ctx, place);
        const note = await createNote(ctx, noteable, { body, internal: internal ?? confidential, created_at });
        return toNote(ctx, noteable, note);
      },
    }),
    route({
      method: 'PUT',
      path: `/projects/:id/${path}/:noteable_iid/notes/:note_id`,
      tag,
      summary: `Change a comment on ${what}`,
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
      input: one,
      response: null,
      run: async (ctx, { note_id, ...place }) => {
        const noteable = await find(ctx, place);
        await deleteNote(ctx, noteable, await getNote(ctx, noteable, note_id));
      },
    }),
  ];
};

const onCommit = { id: idOrPath(), sha: text({ max: 1_000 }) };

const commitRoutes = [
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
      const found = await readPage(await listCommitComments(ctx, await getProject(ctx, id), sha), page);
      return { ...found, items: await toCommitComments(ctx, found.items) };
    },
  }),
  route({
    method: 'POST',
    path: '/projects/:id/repository/commits/:sha/comments',
    tag,
    summary: 'Comment on a commit',
    description:
      'On the commit as a whole, or with `path` and `line` on a line of a file: as the commit left it, or with `line_type` `old` as its first parent had it.',
    input: {
      ...onCommit,
      note: text(),
      path: text({ max: 4_096 }).optional(),
      line: integer({ min: 1, max: 2 ** 31 - 1 }).optional(),
      line_type: oneOf(['new', 'old']).optional(),
    },
    rules: [allOrNoneOf('path', 'line')],
    response: commitCommentRecord,
    run: async (ctx, { id, sha, note, path, line, line_type }) => {
      if (line_type !== undefined && path === undefined) throw badRequest('line_type comes with path and line');
      const on = path === undefined || line === undefined ? null : { path, line, line_type: line_type ?? 'new' };
      const made = await createCommitComment(ctx, await getProject(ctx, id), sha, { note, on });
      const [record] = await toCommitComments(ctx, [made]);
      if (!record) throw notFound('Note');
      return record;
    },
  }),
];

export const routes = [
  ...routesOf('issue', 'issues'),
  ...routesOf('merge_request', 'merge_requests'),
  ...commitRoutes,
] satisfies readonly Route[];
