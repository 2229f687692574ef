import { z } from 'zod';
import { REPORTER } from '#domains/access/model.ts';
import { noteablePart } from '#domains/notes/events.ts';
import { COMMENTABLE_KINDS } from '#domains/notes/noteable.ts';
import { defineEvent, type EventPart } from '#platform/events.ts';
import { AWARDABLE_KINDS } from './model.ts';
import { awardBody } from './webhook.ts';

const award = z.object({
  id: z.number(),
  name: z.string(),
  user_id: z.number(),
  project_id: z.number(),
  awardable_kind: z.enum(AWARDABLE_KINDS),
  awardable_id: z.number(),
  /** The subject of the comment, if it was given to a comment. Absent from older events. */
  noteable: z.object({ kind: z.enum(COMMENTABLE_KINDS), id: z.number().nullable() }).optional(),
  /** Whether that comment is internal. Absent from older events. */
  internal: z.boolean().optional(),
  /** On a confidential issue, or an internal comment. */
  is_confidential: z.boolean(),
  created_at: z.string(),
  updated_at: z.string(),
});
export type AwardPayload = z.output<typeof award>;

/** Bodies include the emoji's subject. Hooks for emoji events have not opted in to confidential content. */
const trigger = ({ is_confidential }: AwardPayload) => (is_confidential ? null : 'emoji_events');

/** The part that the emoji's subject belongs to. */
const part = ({ awardable_kind: kind, awardable_id: id, noteable, internal }: AwardPayload): EventPart => {
  if (kind !== 'note') return noteablePart(kind, id);
  const least = internal === false ? undefined : REPORTER;
  return noteable ? { ...noteablePart(noteable.kind, noteable.id), least } : { ability: 'read_project', least };
};

export const awardEmojiCreated = defineEvent('award_emoji.created', award, { trigger, body: awardBody('award'), part });
export const awardEmojiRemoved = defineEvent('award_emoji.removed', award, {
  trigger,
  body: awardBody('revoke'),
  part,
});
