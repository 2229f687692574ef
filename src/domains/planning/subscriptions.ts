import { type RawBuilder, sql } from 'kysely';
import type { Context, Tx } from '#platform/context.ts';
import { unauthenticated } from '#platform/errors.ts';
import type { IssuableKind } from './quick-actions.ts';

export type SubscribableKind = IssuableKind | 'label';

/**
 * Returns those that the caller is subscribed to. Authors, assignees, reviewers and commenters are subscribed to their
 * issues and merge requests until they unsubscribe.
 */
export const subscribedAmong = async (
  ctx: Pick<Context, 'db' | 'actor'>,
  kind: SubscribableKind,
  ids: readonly number[],
): Promise<ReadonlySet<number>> => {
  const { userId } = ctx.actor;
  if (userId === null || ids.length === 0) return new Set();
  const { rows } = await sql<{ id: number }>`
    select wanted.id from unnest(${ids}::bigint[]) as wanted (id)
    where coalesce(
      (select s.subscribed from subscriptions s where s.${sql.ref(`${kind}_id`)} = wanted.id and s.user_id = ${userId}),
      ${takesPart(kind, userId)})`.execute(ctx.db);
  return new Set(rows.map(({ id }) => id));
};

const takesPart = (kind: SubscribableKind, userId: number): RawBuilder<boolean> => {
  if (kind === 'label') return sql<boolean>`false`;
  const wrote = sql`exists (select from notes n where n.${sql.ref(`${kind}_id`)} = wanted.id
    and n.author_id = ${userId} and not n.system)`;
  if (kind === 'issue') {
    return sql<boolean>`(exists (select from issues i where i.id = wanted.id and i.author_id = ${userId})
      or exists (select from issue_assignees a where a.issue_id = wanted.id and a.user_id = ${userId}) or ${wrote})`;
  }
  return sql<boolean>`(exists (select from merge_requests m where m.id = wanted.id and m.author_id = ${userId})
    or exists (select from merge_request_assignees a where a.merge_request_id = wanted.id and a.user_id = ${userId})
    or exists (select from merge_request_reviewers r where r.merge_request_id = wanted.id and r.user_id = ${userId})
    or ${wrote})`;
};

/**
 * Subscribes the caller or unsubscribes them. Returns false if nothing changed. The caller can see the subject.
 *
 * @throws DomainError `unauthenticated`
 */
export const subscribe = async (
  ctx: Context,
  kind: SubscribableKind,
  { id }: { readonly id: number },
  wanted: boolean,
): Promise<boolean> => {
  if (ctx.actor.userId === null) throw unauthenticated();
  return ctx.transaction((tx) => setSubscription(tx, kind, id, wanted));
};

/** The same in a transaction. Anonymous callers change nothing. */
export const setSubscription = async (
  tx: Tx,
  kind: SubscribableKind,
  id: number,
  wanted: boolean,
): Promise<boolean> => {
  const { userId } = tx.actor;
  if (userId === null || (await subscribedAmong(tx, kind, [id])).has(id) === wanted) return false;
  const column = sql.ref(`${kind}_id`);
  await sql`
    insert into subscriptions (user_id, ${column}, subscribed) values (${userId}, ${id}, ${wanted})
    on conflict (${column}, user_id) do update set subscribed = excluded.subscribed`.execute(tx.db);
  return true;
};
