import { sql } from 'kysely';
import { credentialsEnded } from '#domains/oauth/events.ts';
import { defineFollower } from '#platform/event-log/followers.ts';
import { applyFindings } from './delivery/health.ts';

/**
 * Disables hooks that an application made, or led to another address, once its OAuth grant has ended: it would go on to
 * hear of everything. Whoever administers them is told and can make them live again.
 */
export const disableWithGrants = defineFollower({
  name: 'hooks.grants',
  handle: async (tx, events) => {
    const ended = events.flatMap(({ kind, payload }) =>
      kind === credentialsEnded.kind ? credentialsEnded.payload.parse(payload).origin_id : [],
    );
    if (ended.length === 0) return;
    const hooks = await tx.db
      .selectFrom('webhooks')
      .select('id')
      .where(sql<boolean>`origin_id = any (${ended}::uuid[])`)
      .execute();
    if (hooks.length === 0) return;
    await applyFindings(
      tx,
      hooks.map(({ id }) => ({ webhook_id: id, succeeded: false, failures: 0, probe: false, gone: true })),
    );
  },
});
