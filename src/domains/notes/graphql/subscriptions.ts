import { z } from 'zod';
import { builder } from '#graphql/builder.ts';
import { gid, type ModelId } from '#graphql/ids.ts';
import { subscriptionField, type Update, updateFields, updateOf } from '#graphql/subscription.ts';
import type { EventRow } from '#platform/events.ts';
import { discussionResolved, discussionUnresolved, noteCreated, noteDeleted, noteUpdated } from '../events.ts';
import { NoteRef } from '../graphql.ts';
import { type NoteRow, readableNotes } from '../queries.ts';
import { noteableByModel } from './noteable.ts';

interface NoteUpdate extends Update {
  readonly noteId: number;
  readonly note: NoteRow | null;
}

const NoteUpdateRef = builder.objectRef<NoteUpdate>('NoteUpdate').implement({
  description: 'A comment was written, changed or deleted.',
  fields: (t) => ({
    ...updateFields(t),
    noteId: t.id({ nullable: false, resolve: ({ noteId }) => gid('Note', noteId) }),
    note: t.expose('note', { type: NoteRef, nullable: true, description: 'As it is now. Null if it is deleted.' }),
  }),
});

/** The little of the payloads that decides which issue or merge request an event is about, and which comment. */
const outline = z.union([
  z
    .object({ id: z.number(), noteable_kind: z.string(), noteable_id: z.number().nullable() })
    .transform(({ id, noteable_kind, noteable_id }) => ({ noteId: id, kind: noteable_kind, id: noteable_id })),
  z
    .object({ merge_request_id: z.number(), note_ids: z.array(z.number()).min(1) })
    .transform(({ merge_request_id, note_ids: [noteId = 0] }) => ({
      noteId,
      kind: 'merge_request',
      id: merge_request_id,
    })),
]);

/** Returns the comment if the event is about this issue or merge request. */
const noteIdOf = ({ payload }: EventRow, { model, id }: ModelId): number | null => {
  const about = outline.safeParse(payload);
  const kind = model === 'Issue' ? 'issue' : 'merge_request';
  return about.success && about.data.kind === kind && about.data.id === id ? about.data.noteId : null;
};

/** Declares a subscription to the comments on one issue or merge request (reference: graphql §5). */
const followNotes = (name: string, description: string, kinds: readonly { readonly kind: string }[]): void =>
  subscriptionField(name, {
    description,
    type: NoteUpdateRef,
    args: (t) => ({ noteableId: t({ type: 'NoteableID', required: true }) }),
    open: async (ctx, { noteableId }) => {
      const { project } = await noteableByModel(ctx, noteableId);
      return {
        kinds: new Set(kinds.map(({ kind }) => kind)),
        project_id: project.id,
        concerns: (event) => noteIdOf(event, noteableId) !== null,
      };
    },
    resolve: async (event, { noteableId }, ctx) => {
      const noteId = noteIdOf(event, noteableId);
      if (noteId === null) return null;
      const note = await readableNotes(ctx).where('notes.id', '=', noteId).executeTakeFirst();
      return { ...updateOf(event), noteId, note: note ?? null };
    },
  });

followNotes('workItemNoteCreated', 'Follows new comments on an issue or merge request.', [noteCreated]);
followNotes('workItemNoteUpdated', 'Follows changed comments and resolved threads of an issue or merge request.', [
  noteUpdated,
  discussionResolved,
  discussionUnresolved,
]);
followNotes('workItemNoteDeleted', 'Follows deleted comments of an issue or merge request.', [noteDeleted]);
