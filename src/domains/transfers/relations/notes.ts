import { randomBytes } from 'node:crypto';
import { isObject } from '#platform/values/json.ts';
import type { ImportBatch } from '../importing/batch.ts';
import { type AwardRow, awardColumns, awardTypes, readAward } from './awards.ts';
import {
  actor,
  author,
  type Column,
  exported,
  flag,
  integerOr,
  type Json,
  jsonText,
  moment,
  type Row,
  readRow,
  sha,
  text,
  textOr,
  time,
  typesOf,
  word,
} from './columns.ts';
import { childList, nestedList } from './reading.ts';
import type { ChildReading, ImportLine } from './relation.ts';

const MAX_EXCERPT = 512 * 1024;
const MAX_PATH = 4_096;
/** As many as a comment has here. */
const MAX_SUGGESTIONS = 100;

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

const suggestionColumns: readonly Column[] = [
  integerOr('lines_above', 0),
  integerOr('lines_below', 0),
  flag('applied'),
  flag('outdated'),
  sha('commit_id'),
  textOr('from_content', ''),
  textOr('to_content', ''),
];

const SUGGESTIONS = nestedList(
  'suggestions n',
  `n.relative_order, ${suggestionColumns.map(({ key }) => `n.${key}`).join(', ')}`,
  'n.note_id = t.id',
);

/** The part of the diff that a comment on a line is about. */
const diffFileColumns: readonly Column[] = [
  textOr('diff', '', { max: MAX_EXCERPT }),
  textOr('old_path', '', { max: MAX_PATH }),
  textOr('new_path', '', { max: MAX_PATH }),
  textOr('a_mode', '0', { max: 10 }),
  textOr('b_mode', '0', { max: 10 }),
  flag('new_file'),
  flag('renamed_file'),
  flag('deleted_file'),
];

/** The columns of an exported note. */
export const exportedNote: readonly Column[] = [
  ...noteColumns,
  exported('project_id', 't.project_id'),
  exported('author', AUTHOR),
  exported('system_note_metadata', SYSTEM),
  exported('award_emoji', AWARDS),
  exported('suggestions', SUGGESTIONS),
  exported('note_diff_file', 't.st_diff'),
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
  st_diff: 'jsonb',
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
  readonly #suggestions: { index: number; suggestion: Row }[] = [];

  constructor(batch: ImportBatch) {
    this.#batch = batch;
  }

  /** @throws Refused */
  add(line: ImportLine, note: Json, owner: NoteOwner): void {
    const { people, place } = this.#batch;
    const kind = note.type === 'DiffNote' ? 'diff_note' : 'note';
    this.#batch.counter.fetched(kind);
    const row = readRow(noteColumns, note, people);
    this.#batch.counter.imported(kind);
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
      st_diff: this.#excerptOf(line, note),
      imported: true,
    });
    let relative_order = 0;
    this.#batch.children(line, note, 'suggestions', (suggestion) => {
      if (owner.noteable_type !== 'MergeRequest' || relative_order >= MAX_SUGGESTIONS) return;
      const read = readRow(suggestionColumns, suggestion, people);
      const lines = { lines_above: countOf(read.lines_above), lines_below: countOf(read.lines_below) };
      this.#suggestions.push({ index, suggestion: { ...read, ...lines, relative_order } });
      relative_order += 1;
    });
    this.#batch.children(line, note, 'award_emoji', (award) => {
      this.#awards.push({ index, award: readAward(award, people) });
    });
  }

  /** Null without one, or if it has another form. */
  #excerptOf(line: ImportLine, note: Json): string | null {
    let found: string | null = null;
    if (!isObject(note.note_diff_file)) return found;
    this.#batch.children(line, { note_diff_file: [note.note_diff_file] }, 'note_diff_file', (file) => {
      found = JSON.stringify(readRow(diffFileColumns, file, this.#batch.people));
    });
    return found;
  }

  async write(): Promise<void> {
    const ids = await this.#batch.takeIds('notes', this.#rows.length);
    for (const [index, row] of this.#rows.entries()) row.id = ids[index];
    await this.#batch.insert('notes', types, this.#rows);
    await this.#batch.insert(
      'suggestions',
      suggestionTypes,
      this.#suggestions.map(({ index, suggestion }) => ({ ...suggestion, note_id: ids[index] })),
    );
    await this.#batch.insert(
      'award_emoji',
      { ...awardTypes, note_id: 'bigint' },
      this.#awards.map(({ index, award }) => ({ ...award, note_id: ids[index] })),
      { unlessThere: true },
    );
  }
}

const suggestionTypes = typesOf(suggestionColumns, { note_id: 'bigint', relative_order: 'integer' });

/** Lines around the commented one. */
const countOf = (value: unknown): number => (typeof value === 'number' ? Math.min(Math.max(value, 0), 100) : 0);

const actionOf = (note: Json): string | null => {
  const metadata = note.system_note_metadata;
  return isObject(metadata) && typeof metadata.action === 'string' ? metadata.action.slice(0, 255) : null;
};
