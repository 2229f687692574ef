import { type HookedProject, hookProject } from '#domains/projects/webhook.ts';
import type { UserSummary } from '#domains/users/queries.ts';
import { hookUser } from '#domains/users/webhook.ts';
import type { Context } from '#platform/context.ts';
import { hookTime } from '#platform/time.ts';

/** An emoji that somebody gave, as stored. */
export interface Award {
  readonly id: number;
  readonly name: string;
  readonly user_id: number;
  readonly created_at: string;
  readonly updated_at: string;
}

/** What it was given to, as bodies of comments have it, and its address. */
export interface Awarded {
  readonly type: 'Issue' | 'MergeRequest' | 'Note' | 'Snippet';
  readonly id: number;
  readonly url: string;
  /** `issue`, `merge_request`, `note`, `project_snippet` as they apply. */
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
