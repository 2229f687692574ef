import type { Selectable } from 'kysely';
import type { Noteable } from '#domains/notes/noteable.ts';
import type { NoteRow } from '#domains/notes/queries.ts';
import type { AwardEmoji } from '#platform/db/tables.ts';

export type AwardRow = Selectable<AwardEmoji>;

/** The subject of an emoji: an issue, a merge request, or a comment on one. */
export interface Awardable {
  readonly noteable: Noteable;
  readonly note: NoteRow | null;
}

/** The subjects of emoji by their table. Each has a column of its own. */
export const AWARDABLE_KINDS = ['issue', 'merge_request', 'note'] as const;
export type AwardableKind = (typeof AWARDABLE_KINDS)[number];

export const kindOf = ({ noteable, note }: Awardable): AwardableKind => (note ? 'note' : noteable.kind);
export const idOf = ({ noteable, note }: Awardable): number => (note ?? noteable).id;

const TYPES = { issue: 'Issue', merge_request: 'MergeRequest', note: 'Note' } as const;

/** `Issue`, `MergeRequest` or `Note`. */
export const awardableType = (kind: AwardableKind) => TYPES[kind];

/** Aliases. Votes are counted under a single name. */
const ALIASES: ReadonlyMap<string, string> = new Map([
  ['+1', 'thumbsup'],
  ['-1', 'thumbsdown'],
]);

const NAME = /^[a-z0-9_+-]{1,100}$/;

/**
 * Returns the stored name of an emoji, or null for an invalid name. Clients decide which emoji exist: any name of
 * letters, digits, `_`, `+` and `-` is accepted, with or without surrounding colons.
 */
export const emojiName = (given: string): string | null => {
  const name = given.replace(/^:(.*):$/, '$1');
  return NAME.test(name) ? (ALIASES.get(name) ?? name) : null;
};
