import { payloadOf } from '#domains/notes/commands.ts';
import { noteableWebUrl } from '#domains/notes/noteable.ts';
import { hookNote, hookSubject } from '#domains/notes/webhook.ts';
import { findProjectWith } from '#domains/projects/queries.ts';
import { HOOK_PARTS, type HookedProject, hookProject } from '#domains/projects/webhook.ts';
import { type UserSummary, userSummariesByIds } from '#domains/users/queries.ts';
import { hookUser } from '#domains/users/webhook.ts';
import type { Context } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import type { EventRow } from '#platform/events.ts';
import { hookTime } from '#platform/time.ts';
import type { AwardPayload } from './events.ts';
import { awardableType } from './model.ts';
import { getAwardableById } from './queries.ts';

/** An emoji as stored. */
export interface Award {
  readonly id: number;
  readonly name: string;
  readonly user_id: number;
  readonly created_at: string;
  readonly updated_at: string;
}

/** The subject of the emoji and its URL. */
export interface Awarded {
  readonly type: 'Issue' | 'MergeRequest' | 'Note' | 'Snippet';
  readonly id: number;
  readonly url: string;
  /** The subject objects as in comment bodies: `issue`, `merge_request`, `note`, `project_snippet`. */
  readonly objects: Readonly<Record<string, unknown>>;
}

/** The body of emoji events (reference: webhooks §3). */
export const emojiBody = (
  ctx: Context,
  project: HookedProject,
  { award, awarded, user }: { readonly award: Award; readonly awarded: Awarded; readonly user: UserSummary | null },
  action: 'award' | 'revoke',
): Record<string, unknown> => ({
  object_kind: 'emoji',
  event_type: action,
  user: user && hookUser(ctx, user),
  project_id: project.id,
  project: hookProject(ctx, project),
  object_attributes: {
    id: award.id,
    name: award.name,
    user_id: award.user_id,
    awardable_type: awarded.type,
    awardable_id: awarded.id,
    action,
    awarded_on_url: awarded.url,
    created_at: hookTime(award.created_at),
    updated_at: hookTime(award.updated_at),
  },
  ...awarded.objects,
});

/** The body for an event; null if there is no subject to show (`hookSubject`). */
export const awardBody =
  (action: 'award' | 'revoke') =>
  async (ctx: Context, event: EventRow, award: AwardPayload): Promise<Record<string, unknown> | null> => {
    const project = await findProjectWith(ctx, { id: award.project_id }, HOOK_PARTS);
    const awarded = project && (await findAwarded(ctx, project, award));
    if (!project || !awarded) return null;
    const actor = event.actor_id ?? award.user_id;
    const user = (await userSummariesByIds(ctx, [actor])).get(actor) ?? null;
    return emojiBody(ctx, project, { award, awarded, user }, action);
  };

const findAwarded = async (
  ctx: Context,
  project: HookedProject,
  { awardable_kind: kind, awardable_id: id, is_confidential }: AwardPayload,
): Promise<Awarded | null> => {
  try {
    const { noteable, note } = await getAwardableById(ctx, kind, id);
    const subject = await hookSubject(ctx, project, noteable.kind, noteable.id, is_confidential);
    if (!subject) return null;
    const url = noteableWebUrl(ctx, project, noteable.kind, noteable.iid);
    return {
      type: awardableType(kind),
      id,
      url: note ? `${url}#note_${note.id}` : url,
      objects: note ? { note: hookNote(ctx, project, payloadOf(noteable, note)), ...subject } : subject,
    };
  } catch (error) {
    if (error instanceof DomainError && error.code === 'not_found') return null;
    throw error;
  }
};
