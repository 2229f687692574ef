import { sql } from 'kysely';
import { credentialsEnded } from '#domains/oauth/events.ts';
import { defineFollower } from '#platform/event-log/followers.ts';
import { emitRunnerEvent } from './commands.ts';
import { runnerTokenEnded } from './events.ts';
import { placeOfRunner } from './management.ts';
import { runnerFields } from './queries.ts';

/** Ends the tokens of runners that an application created, when its OAuth authorization ends. */
export const endWithGrants = defineFollower({
  name: 'runners.grants',
  wants: ({ kind }) => kind === credentialsEnded.kind,
  handle: async (tx, events) => {
    const ended = events.map(({ payload }) => credentialsEnded.payload.parse(payload).origin_id);
    const runners = await tx.db
      .updateTable('runners')
      .set({ token_expires_at: sql`now()`, updated_at: sql`now()` })
      .where(sql<boolean>`origin_id = any (${ended}::uuid[])`)
      .where(sql<boolean>`(token_expires_at is null or token_expires_at > now())`)
      .returning(runnerFields)
      .execute();
    for (const runner of runners) {
      emitRunnerEvent(tx, runnerTokenEnded, runner, await placeOfRunner(tx, runner));
    }
  },
});
