import { sql } from 'kysely';
import { z } from 'zod';
import { getGroup } from '#domains/groups/queries.ts';
import { unshareGroup } from '#domains/groups/shares.ts';
import { getProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { defineJob } from '#platform/jobs.ts';
import { memberRemoved } from './events.ts';
import { eventOf, refresh } from './joining.ts';
import { groupSource, projectSource } from './model.ts';
import { unshareProject } from './shares.ts';

const AT_ONCE = 500;

/**
 * The job `members.remove_expired` removes expired memberships, with an event for each. Access has already ended,
 * because queries check the expiry. This can leave a group without an Owner; an administrator then appoints another.
 */
export const removeExpiredMembers = defineJob({
  name: 'members.remove_expired',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '9 * * * *',
  run: async (ctx) => {
    for (;;) {
      const rows = await ctx.db
        .selectFrom('members')
        .select(['id', 'namespace_id', 'project_id'])
        .where(sql<boolean>`expires_at <= current_date`)
        .orderBy('id')
        .limit(AT_ONCE)
        .execute();
      for (const row of rows) await gone(() => removeMembership(ctx, row));
      if (rows.length < AT_ONCE) break;
    }
    await removeShares(ctx);
  },
});

interface ExpiredMembership {
  readonly id: number;
  readonly namespace_id: number | null;
  readonly project_id: number | null;
}

const removeMembership = (ctx: Context, { id, namespace_id, project_id }: ExpiredMembership): Promise<void> =>
  ctx.transaction(async (tx) => {
    ctx.signal.throwIfAborted();
    // It may have been extended.
    const row = await tx.db
      .deleteFrom('members')
      .where('id', '=', id)
      .where(sql<boolean>`expires_at <= current_date`)
      .returningAll()
      .executeTakeFirst();
    if (!row) return;
    const source =
      namespace_id === null
        ? projectSource(await getProject(tx, { id: project_id ?? 0 }))
        : groupSource(await getGroup(tx, { id: namespace_id }));
    if (row.user_id !== null) await refresh(tx, source, [row.user_id]);
    tx.emit(memberRemoved, await eventOf(tx, source, row));
  });

const removeShares = async (ctx: Context): Promise<void> => {
  const expired = sql<boolean>`expires_at <= current_date`;
  const groups = await ctx.db
    .selectFrom('namespace_shares')
    .select(['namespace_id', 'shared_with_id'])
    .where(expired)
    .execute();
  for (const { namespace_id, shared_with_id } of groups) {
    await gone(() => unshareGroup(ctx, { id: namespace_id }, { id: shared_with_id }));
  }
  const projects = await ctx.db
    .selectFrom('project_shares')
    .select(['project_id', 'shared_with_id'])
    .where(expired)
    .execute();
  for (const { project_id, shared_with_id } of projects) {
    await gone(async () => unshareProject(ctx, await getProject(ctx, { id: project_id }), { id: shared_with_id }));
  }
};

/** Ignores memberships that a concurrent request has already removed. */
const gone = async (remove: () => Promise<void>): Promise<void> => {
  try {
    await remove();
  } catch (error) {
    if (!(error instanceof DomainError) || error.code !== 'not_found') throw error;
  }
};
