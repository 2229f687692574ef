import { sql } from 'kysely';
import { findGroup } from '#domains/groups/queries.ts';
import { credentialsEnded } from '#domains/oauth/events.ts';
import { findProject } from '#domains/projects/queries.ts';
import { defineFollower } from '#platform/event-log/followers.ts';
import { tellOfRunner } from './commands.ts';
import { runnerTokenEnded } from './events.ts';
import { runnerFields } from './queries.ts';

/** Ends the tokens of runners that an application created, when its OAuth authorization ends. */
export const endWithGrants = defineFollower({
  name: 'runners.grants',
  handle: async (tx, events) => {
    const ended = events.flatMap(({ kind, payload }) =>
      kind === credentialsEnded.kind ? credentialsEnded.payload.parse(payload).origin_id : [],
    );
    if (ended.length === 0) return;
    const runners = await tx.db
      .updateTable('runners')
      .set({ token_expires_at: sql`now()`, updated_at: sql`now()` })
      .where(sql<boolean>`origin_id = any (${ended}::uuid[])`)
      .where(sql<boolean>`(token_expires_at is null or token_expires_at > now())`)
      .returning(runnerFields)
      .execute();
    for (const runner of runners) {
      const group = runner.namespace_id === null ? null : await findGroup(tx, { id: runner.namespace_id });
      const project = runner.project_id === null ? null : await findProject(tx, { id: runner.project_id });
      tellOfRunner(tx, runnerTokenEnded, runner, group ?? project);
    }
  },
});
