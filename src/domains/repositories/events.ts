import { z } from 'zod';
import { defineEvent, type EventRow } from '#platform/events.ts';
import { ZERO_OID } from '#platform/git/ref-names.ts';
import { pushOptionsSchema } from './push-options.ts';

const commit = z.object({
  id: z.string(),
  message: z.string(),
  title: z.string(),
  /** ISO 8601 with the UTC offset of the commit. */
  timestamp: z.string(),
  url: z.string(),
  author: z.object({ name: z.string(), email: z.string() }),
  added: z.array(z.string()),
  modified: z.array(z.string()),
  removed: z.array(z.string()),
});
export type PushedCommit = z.output<typeof commit>;

/** Objects of webhook bodies, with their values at the time of the event. */
const hookObject = z.record(z.string(), z.json());

const user = z.object({
  id: z.number(),
  name: z.string(),
  username: z.string(),
  email: z.string(),
  avatar_url: z.string().nullable(),
});

const moved = z.object({
  ref: z.string(),
  /** Null if the ref did not exist. */
  before: z.string().nullable(),
  /** Null if the ref was deleted. */
  after: z.string().nullable(),
  /** The new commit. Null after a deletion. */
  checkout_sha: z.string().nullable(),
  ref_protected: z.boolean(),
  /** The message of an annotated tag. */
  message: z.string().nullable(),
  /** The newest 20. */
  commits: z.array(commit),
  /** Null if the push moved too many refs to count. */
  total_commits_count: z.number().nullable(),
  /** False if the push moved more branches or tags than `push_event_hooks_limit`. */
  fires_hooks: z.boolean(),
  /** The options of `git push -o`. Only set if hooks get the event. */
  push_options: pushOptionsSchema.optional(),
  /** Null for actions of the hub itself, and if the user is gone. */
  user: user.nullable(),
  project: hookObject,
  repository: hookObject,
});
export type MovedRef = z.output<typeof moved>;

const updated = z.object({
  user: user.nullable(),
  project: hookObject,
  changes: z.array(z.object({ ref: z.string(), before: z.string().nullable(), after: z.string().nullable() })),
  /** For pipelines. Options may hold values that readers of the code must not see. */
  hook_only: z.object({ push_options: pushOptionsSchema }).optional(),
});
export type RepositoryUpdate = z.output<typeof updated>;

const person = (from: MovedRef['user']) => ({
  user_id: from?.id ?? null,
  user_name: from?.name ?? null,
  user_username: from?.username ?? null,
  user_email: from?.email ?? null,
  user_avatar: from?.avatar_url ?? null,
});

const part = { ability: 'read_code' } as const;

const pushBody = (kind: 'push' | 'tag_push') => ({
  part,
  trigger: (payload: MovedRef) => (payload.fires_hooks ? (kind === 'push' ? 'push_events' : 'tag_push_events') : null),
  body: async (_ctx: unknown, event: EventRow, payload: MovedRef): Promise<Record<string, unknown>> => ({
    object_kind: kind,
    event_name: kind,
    before: payload.before ?? ZERO_OID,
    after: payload.after ?? ZERO_OID,
    ref: payload.ref,
    ref_protected: payload.ref_protected,
    checkout_sha: payload.checkout_sha,
    message: payload.message,
    ...person(payload.user),
    project_id: event.project_id,
    project: payload.project,
    commits: payload.commits,
    total_commits_count: payload.total_commits_count ?? 0,
    push_options: payload.push_options ?? {},
    repository: payload.repository,
  }),
});

/** A branch was created, moved or deleted, by a push or through the API. */
export const pushReceived = defineEvent('push.received', moved, pushBody('push'));
/** A tag was created, moved or deleted, by a push or through the API. */
export const tagPushed = defineEvent('tag.pushed', moved, pushBody('tag_push'));

/** Emitted once for each push. */
export const repositoryUpdated = defineEvent('repository.updated', updated, {
  part,
  trigger: () => 'repository_update_events',
  body: async (_ctx, event, payload) => {
    const { user_username: _, ...who } = person(payload.user);
    return {
      event_name: 'repository_update',
      ...who,
      project_id: event.project_id,
      project: payload.project,
      changes: payload.changes.map(({ ref, before, after }) => ({
        before: before ?? ZERO_OID,
        after: after ?? ZERO_OID,
        ref,
      })),
      refs: [...new Set(payload.changes.map(({ ref }) => ref))],
    };
  },
});

const protection = z.object({ id: z.number(), name: z.string() });
export const branchProtected = defineEvent('protected_branch.created', protection);
export const branchProtectionUpdated = defineEvent('protected_branch.updated', protection);
export const branchUnprotected = defineEvent('protected_branch.deleted', protection);
export const tagProtected = defineEvent('protected_tag.created', protection);
export const tagUnprotected = defineEvent('protected_tag.deleted', protection);
