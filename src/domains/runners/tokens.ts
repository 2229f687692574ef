import { sql } from 'kysely';
import { defineCache } from '#platform/cache.ts';
import type { Context, Services } from '#platform/context.ts';
import { digestToken } from '#platform/secrets.ts';
import type { RunnerAccessLevel, RunnerType } from './model.ts';

/** The facts about a runner that decide which jobs it may take. */
export interface RunnerFacts {
  readonly id: number;
  readonly runner_type: RunnerType;
  readonly namespace_id: number | null;
  /** The projects that a project runner serves. */
  readonly project_ids: readonly number[];
  readonly paused: boolean;
  readonly run_untagged: boolean;
  readonly tags: readonly string[];
  readonly access_level: RunnerAccessLevel;
  readonly maximum_timeout: number | null;
  readonly description: string;
  readonly token_expires_at: string | null;
  /** In milliseconds since 1970. */
  readonly expires_at_ms: number | null;
  /** Changes with the row. */
  readonly version: string;
}

/** Notified when a runner was changed or removed (migration 0082). */
export const RUNNERS_CHANGED_CHANNEL = 'runners_changed';

interface Known {
  readonly facts: RunnerFacts;
  readonly generation: number;
}

const cachedRunners = defineCache<string, Known>({ name: 'runners', limit: 20_000 });
const generations = new WeakMap<Services, number>();
/** Changes when a runner or a manager may have changed. Cached facts of an older generation are stale. */
export const generationOf = (services: Services): number => generations.get(services) ?? 0;

/** Makes this process read every runner again. */
export const forgetRunners = (services: Services): void => {
  generations.set(services, generationOf(services) + 1);
};

/**
 * Returns the runner with this token, or null. The answer may be older than the last change by the time that a
 * notification takes, so it must not give a job away: the statement that does checks the token again.
 */
export const findRunnerByToken = async (ctx: Context, token: string): Promise<RunnerFacts | null> => {
  const digest = digestToken(token);
  const key = digest.toString('base64');
  const cache = cachedRunners(ctx.services);
  const generation = generationOf(ctx.services);
  const known = cache.get(key);
  const facts = known?.generation === generation ? known.facts : await readRunner(ctx, digest);
  if (facts === null) return null;
  if (facts !== known?.facts) cache.set(key, { facts, generation });
  const isExpired = facts.expires_at_ms !== null && facts.expires_at_ms <= ctx.clock.now().getTime();
  return isExpired ? null : facts;
};

const readRunner = async ({ db }: Pick<Context, 'db'>, digest: Buffer): Promise<RunnerFacts | null> => {
  const { rows } = await sql<RunnerFacts>`
    select r.id, r.runner_type, r.namespace_id, r.paused, r.run_untagged, r.tags, r.access_level, r.maximum_timeout,
      r.description, r.token_expires_at, r.xmin::text as version,
      (extract(epoch from r.token_expires_at) * 1000)::double precision as expires_at_ms,
      array(select rp.project_id from runner_projects rp where rp.runner_id = r.id)
        || case when r.project_id is null then '{}'::bigint[] else array[r.project_id] end as project_ids
    from runners r
    where r.digest = ${digest} and (r.token_expires_at is null or r.token_expires_at > now())`.execute(db);
  return rows[0] ?? null;
};
