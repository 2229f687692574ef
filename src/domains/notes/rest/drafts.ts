import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { readPage } from '#platform/paging.ts';
import { atLeastOneOf, boolean, idOrPath, integer, text } from '#rest/params.ts';
import { listRoute, type Route, route, TEXT_BODY_BYTES } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import {
  createDraftNote,
  type DraftNoteRow,
  deleteDraftNote,
  getDraftNote,
  listDraftNotes,
  publishDraftNote,
  publishDraftNotes,
  updateDraftNote,
} from '../drafts.ts';
import { getNoteable, type Noteable } from '../noteable.ts';
import { position } from './position.ts';

const tag = 'Notes';
const all = '/projects/:id/merge_requests/:noteable_iid/draft_notes';
const onMergeRequest = { id: idOrPath(), noteable_iid: integer() };
const one = { ...onMergeRequest, draft_note_id: integer() };

const draftNoteRecord = z
  .object({
    id: z.int(),
    author_id: z.int(),
    merge_request_id: z.int(),
    resolve_discussion: z.boolean(),
    discussion_id: z.string().nullable(),
    note: z.string(),
    commit_id: z.string().nullable(),
    line_code: z.string().nullable(),
    position: z.unknown(),
  })
  .meta({ id: 'DraftNote' });

const toDraftNote = (row: DraftNoteRow): z.output<typeof draftNoteRecord> => ({
  id: row.id,
  author_id: row.author_id,
  merge_request_id: row.merge_request_id,
  resolve_discussion: row.resolve_discussion,
  discussion_id: row.discussion_id,
  note: row.note,
  commit_id: row.commit_id,
  line_code: row.line_code,
  position: row.position,
});

const find = async (
  ctx: Context,
  { id, noteable_iid }: { readonly id: IdOrPath; readonly noteable_iid: number },
): Promise<Noteable> => getNoteable(ctx, await getProject(ctx, id), 'merge_request', noteable_iid);

export const draftRoutes = [
  listRoute({
    path: all,
    tag,
    summary: 'List your draft notes on a merge request',
    description: 'Oldest first. Nobody else sees them.',
    paging: 'offset',
    input: onMergeRequest,
    item: draftNoteRecord,
    run: async (ctx, place, page) => {
      const found = await readPage(listDraftNotes(ctx, await find(ctx, place)), page);
      return { ...found, items: found.items.map(toDraftNote) };
    },
  }),
  route({
    method: 'GET',
    path: `${all}/:draft_note_id`,
    tag,
    summary: 'Get a draft note',
    input: one,
    response: draftNoteRecord,
    run: async (ctx, { draft_note_id, ...place }) =>
      toDraftNote(await getDraftNote(ctx, await find(ctx, place), draft_note_id)),
  }),
  route({
    method: 'POST',
    path: all,
    tag,
    summary: 'Create a draft note on a merge request',
    description: 'A comment, a reply to a discussion, or with `position`, a comment on a line of the diff.',
    maxBodyBytes: TEXT_BODY_BYTES,
    input: {
      ...onMergeRequest,
      note: text(),
      in_reply_to_discussion_id: text({ max: 255 }).nullish(),
      commit_id: text({ max: 64 }).nullish(),
      position: position.nullish(),
      resolve_discussion: boolean().optional(),
    },
    response: draftNoteRecord,
    run: async (ctx, { note, in_reply_to_discussion_id, commit_id, position, resolve_discussion, ...place }) =>
      toDraftNote(
        await createDraftNote(ctx, await find(ctx, place), {
          note,
          in_reply_to_discussion_id: in_reply_to_discussion_id || undefined,
          commit_id: commit_id || undefined,
          position: position ?? undefined,
          resolve_discussion,
        }),
      ),
  }),
  route({
    method: 'PUT',
    path: `${all}/:draft_note_id`,
    tag,
    summary: 'Change a draft note',
    maxBodyBytes: TEXT_BODY_BYTES,
    input: { ...one, note: text().optional(), position: position.nullish() },
    rules: [atLeastOneOf('note', 'position')],
    response: draftNoteRecord,
    run: async (ctx, { draft_note_id, note, position, ...place }) => {
      const noteable = await find(ctx, place);
      const draft = await getDraftNote(ctx, noteable, draft_note_id);
      return toDraftNote(await updateDraftNote(ctx, noteable, draft, { note, position: position ?? undefined }));
    },
  }),
  route({
    method: 'DELETE',
    path: `${all}/:draft_note_id`,
    tag,
    summary: 'Delete a draft note',
    refusals: MODIFIED,
    input: one,
    response: null,
    run: async (ctx, { draft_note_id, ...place }, http) => {
      await deleteDraftNote(ctx, await getDraftNote(ctx, await find(ctx, place), draft_note_id), unmodifiedSince(http));
    },
  }),
  route({
    method: 'PUT',
    path: `${all}/:draft_note_id/publish`,
    tag,
    summary: 'Publish a draft note',
    status: 204,
    input: one,
    response: null,
    run: async (ctx, { draft_note_id, ...place }) => {
      const noteable = await find(ctx, place);
      await publishDraftNote(ctx, noteable, await getDraftNote(ctx, noteable, draft_note_id));
    },
  }),
  route({
    method: 'POST',
    path: `${all}/bulk_publish`,
    tag,
    summary: 'Publish all your draft notes on a merge request',
    status: 204,
    input: onMergeRequest,
    response: null,
    run: async (ctx, place) => publishDraftNotes(ctx, await find(ctx, place)),
  }),
] satisfies readonly Route[];
