import type { Selectable } from 'kysely';
import type { Noteable } from '#domains/notes/noteable.ts';
import type { NoteRow } from '#domains/notes/queries.ts';
import type { AwardEmoji } from '#platform/db/tables.ts';

export type AwardRow = Selectable<AwardEmoji>;

/** What emoji are given to: an issue, a merge request, or a comment on one. */
export interface Awardable {
  readonly noteable: Noteable;
  readonly note: NoteRow | null;
}

/** The tables of what emoji are given to, by the column that names it. */
export type AwardableKind = 'issue' | 'merge_request' | 'note';

export const kindOf = ({ noteable, note }: Awardable): AwardableKind => (note ? 'note' : noteable.kind);
export const idOf = ({ noteable, note }: Awardable): number => (note ?? noteable).id;

const TYPES = { issue: 'Issue', merge_request: 'MergeRequest', note: 'Note' } as const;

/** `Issue`, `MergeRequest` or `Note`. */
export const awardableType = (kind: AwardableKind) => TYPES[kind];

/** The same thing under another name: votes are counted by one. */
const ALIASES: ReadonlyMap<string, string> = new Map([
  ['+1', 'thumbsup'],
  ['-1', 'thumbsdown'],
]);

const NAME = /^[a-z0-9_+-]{1,100}$/;

/**
 * The name that an emoji is kept under, or null for what can be none. Which emoji there are is the clients' to know: any
 * name of letters, digits, `_`, `+` and `-` is taken, with or without the colons that people write around it.
 */
export const emojiName = (given: string): string | null => {
  const name = given.replace(/^:(.*):$/, '$1');
  return NAME.test(name) ? (ALIASES.get(name) ?? name) : null;
};
