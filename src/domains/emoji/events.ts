import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';
import { awardBody } from './webhook.ts';

const award = z.object({
  id: z.number(),
  name: z.string(),
  user_id: z.number(),
  project_id: z.number(),
  awardable_kind: z.enum(['issue', 'merge_request', 'note']),
  awardable_id: z.number(),
  /** On a confidential issue, or an internal comment. */
  is_confidential: z.boolean(),
  created_at: z.string(),
  updated_at: z.string(),
});
export type AwardPayload = z.output<typeof award>;

/** Bodies hold what the emoji was given to: of what is confidential, hooks that want emoji have not said they want that. */
const trigger = ({ is_confidential }: AwardPayload) => (is_confidential ? null : 'emoji_events');

export const awardEmojiCreated = defineEvent('award_emoji.created', award, { trigger, body: awardBody('award') });
export const awardEmojiRemoved = defineEvent('award_emoji.removed', award, { trigger, body: awardBody('revoke') });
