import { sql } from 'kysely';
import { z } from 'zod';
import type { Tx } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';
import { runSync } from './run.ts';

/** The job `directory.sync_group`: one sync of one group. */
export const syncGroup = defineJob({
  name: 'directory.sync_group',
  input: z.object({ group_id: z.number(), run: z.number() }),
  maxAttempts: 4,
  long: true,
  run: (ctx, { group_id, run }, { lastAttempt }) => runSync(ctx, group_id, run, lastAttempt),
});

/** Queues a sync of the group. A sync that is already running stops, because the new one covers its work. */
export const queueSync = async (tx: Tx, groupId: number): Promise<void> => {
  const { rows } = await sql<{ run: number }>`
    insert into ldap_syncs as s (namespace_id, run, state) values (${groupId}, 1, 'queued')
    on conflict (namespace_id) do update set run = s.run + 1, state = 'queued', total = 0, processed = 0, added = 0,
      changed = 0, removed = 0, error = null, queued_at = now(), started_at = null, finished_at = null
    returning run`.execute(tx.db);
  const run = rows[0]?.run ?? 0;
  tx.enqueue(syncGroup, { group_id: groupId, run }, { key: `directory.sync_group:${groupId}` });
};

const AT_ONCE = 200;
/** After this many hours a queued or running sync counts as abandoned. */
const GIVEN_UP_HOURS = 6;

/** The job `directory.sync_all`: queues a sync every hour for all groups that have links or members from LDAP. */
export const syncAll = defineJob({
  name: 'directory.sync_all',
  input: z.object({}).strict(),
  maxAttempts: 3,
  cron: '13 * * * *',
  run: async (ctx) => {
    if (ctx.services.config.ldapServers.length === 0) return;
    for (let after = 0; ; ) {
      ctx.signal.throwIfAborted();
      const { rows } = await sql<{ id: number; busy: boolean }>`
        select linked.id, coalesce(s.state in ('queued', 'running')
          and s.queued_at > now() - make_interval(hours => ${GIVEN_UP_HOURS}), false) as busy
        from (select namespace_id as id from ldap_group_links union
          select namespace_id from members where source = 'ldap' and namespace_id is not null) linked
        left join ldap_syncs s on s.namespace_id = linked.id
        where linked.id > ${after} order by linked.id limit ${AT_ONCE}`.execute(ctx.db);
      const last = rows.at(-1);
      if (!last) return;
      await ctx.transaction(async (tx) => {
        for (const { id, busy } of rows) if (!busy) await queueSync(tx, id);
      });
      after = last.id;
    }
  },
});
