import { sql } from 'kysely';
import { credentialsEnded } from '#domains/oauth/events.ts';
import { defineFollower } from '#platform/event-log/followers.ts';
import { applyFindings } from './delivery/health.ts';

/**
 * Disables the hooks that an application created or pointed to a new address, once its OAuth grant has ended. Otherwise
 * it would keep receiving events. The people who administer a hook are notified and can enable it again.
 */
export const disableWithGrants = defineFollower({
  name: 'hooks.grants',
  wants: ({ kind }) => kind === credentialsEnded.kind,
  handle: async (tx, events) => {
    const ended = events.map(({ payload }) => credentialsEnded.payload.parse(payload).origin_id);
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
