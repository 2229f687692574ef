import { randomBytes } from 'node:crypto';
import type { ImportBatch } from '../importing/batch.ts';
import { type AwardRow, awardColumns, awardTypes, readAward } from './awards.ts';
import {
  actor,
  author,
  type Column,
  exported,
  flag,
  isObject,
  type Json,
  jsonText,
  moment,
  type Row,
  readRow,
  text,
  time,
  typesOf,
  word,
} from './columns.ts';
import { childList, nestedList } from './reading.ts';
import type { ChildReading, ImportLine } from './relation.ts';

/** The columns of notes on issues, merge requests, commits and snippets. */
const noteColumns: readonly Column[] = [
  text('note'),
  word('noteable_type', ['Issue', 'MergeRequest', 'Commit', 'Snippet'], { otherwise: null }),
  author('author_id'),
  text('commit_id', { max: 255 }),
  word('type', ['DiscussionNote', 'DiffNote'], { otherwise: null }),
  flag('system'),
  flag('confidential'),
  text('discussion_id', { max: 255 }),
  text('line_code', { max: 1_024 }),
  jsonText('position'),
  jsonText('original_position'),
  jsonText('change_position'),
  time('resolved_at'),
  actor('resolved_by_id'),
  actor('updated_by_id'),
  time('last_edited_at'),
  moment('created_at'),
  moment('updated_at'),
];

const AUTHOR = `(select json_build_object('name', u.name) from users u where u.id = t.author_id)`;
const SYSTEM = `case when t.system_note_action is not null then json_build_object('action', t.system_note_action) end`;
const AWARDS = nestedList('award_emoji n', awardColumns('n', 'Note'), 'n.note_id = t.id');

/** The columns of an exported note. */
export const exportedNote: readonly Column[] = [
  ...noteColumns,
  exported('project_id', 't.project_id'),
  exported('author', AUTHOR),
  exported('system_note_metadata', SYSTEM),
  exported('award_emoji', AWARDS),
];

/** Reads the notes of parents whose id is in the column `parent`. */
export const notesOf = (parent: string, owner: string): ChildReading =>
  childList('notes', { from: 'notes t', parent: `t.${parent}`, owner, columns: exportedNote });

const types = typesOf(noteColumns, {
  id: 'bigint',
  project_id: 'bigint',
  issue_id: 'bigint',
  merge_request_id: 'bigint',
  snippet_id: 'bigint',
  system_note_action: 'text',
  imported: 'boolean',
});

export interface NoteOwner {
  readonly noteable_type: 'Issue' | 'MergeRequest' | 'Commit' | 'Snippet';
  readonly issue_id?: number | undefined;
  readonly merge_request_id?: number | undefined;
  readonly snippet_id?: number | undefined;
}

/** Gathers notes with their awards and writes them at once. */
export class NoteWriter {
  readonly #batch: ImportBatch;
  readonly #rows: Row[] = [];
  readonly #awards: { index: number; award: AwardRow }[] = [];

  constructor(batch: ImportBatch) {
    this.#batch = batch;
  }

  /** @throws Refused */
  add(line: ImportLine, note: Json, owner: NoteOwner): void {
    const { people, place } = this.#batch;
    const row = readRow(noteColumns, note, people);
    const isCommit = owner.noteable_type === 'Commit';
    const index = this.#rows.length;
    this.#rows.push({
      ...row,
      ...owner,
      note: people.credit(note, row.created_at) + String(row.note ?? ''),
      commit_id: isCommit ? (row.commit_id ?? '') : row.commit_id,
      discussion_id: row.discussion_id ?? randomBytes(20).toString('hex'),
      project_id: place.project_id,
      system_note_action: actionOf(note),
      imported: true,
    });
    this.#batch.children(line, note, 'award_emoji', (award) => {
      this.#awards.push({ index, award: readAward(award, people) });
    });
  }

  async write(): Promise<void> {
    const ids = await this.#batch.takeIds('notes', this.#rows.length);
    for (const [index, row] of this.#rows.entries()) row.id = ids[index];
    await this.#batch.insert('notes', types, this.#rows);
    await this.#batch.insert(
      'award_emoji',
      { ...awardTypes, note_id: 'bigint' },
      this.#awards.map(({ index, award }) => ({ ...award, note_id: ids[index] })),
      { unlessThere: true },
    );
  }
}

const actionOf = (note: Json): string | null => {
  const metadata = note.system_note_metadata;
  return isObject(metadata) && typeof metadata.action === 'string' ? metadata.action.slice(0, 255) : null;
};
