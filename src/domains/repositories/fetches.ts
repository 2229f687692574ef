import { sql } from 'kysely';
import { z } from 'zod';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import type { Context, Services } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';

const FLUSH_AFTER_MS = 1_000;
const DAYS = 30;

/**
 * Counts the fetches of a process and writes them once a second in one statement. A project has one row per day, and
 * writing each fetch at once would make all fetches of a busy project wait for that row. If the process dies, unwritten
 * counts are lost.
 */
export class FetchCounter {
  readonly #services: Services;
  #counts = new Map<number, number>();
  #timer: NodeJS.Timeout | undefined;

  constructor(services: Services) {
    this.#services = services;
  }

  add(projectId: number): void {
    this.#counts.set(projectId, (this.#counts.get(projectId) ?? 0) + 1);
    this.#timer ??= setTimeout(() => void this.flush(), FLUSH_AFTER_MS).unref();
  }

  /** Writes the counts. If that fails, keeps them for the next time. */
  async flush(): Promise<void> {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const counts = this.#counts;
    if (counts.size === 0) return;
    this.#counts = new Map();
    try {
      await sql`
        insert into project_fetches (project_id, day, count)
        select p.id, current_date, fetched.count
        from unnest(${[...counts.keys()]}::bigint[], ${[...counts.values()]}::bigint[]) as fetched (project_id, count)
        join projects p on p.id = fetched.project_id
        order by p.id for key share of p
        on conflict (project_id, day) do update set count = project_fetches.count + excluded.count`.execute(
        this.#services.db,
      );
    } catch (error) {
      this.#services.log.warn({ err: error }, 'fetches could not be counted; trying again');
      for (const [projectId, count] of counts) this.#counts.set(projectId, (this.#counts.get(projectId) ?? 0) + count);
      this.#timer ??= setTimeout(() => void this.flush(), FLUSH_AFTER_MS * 10).unref();
    }
  }
}

export interface FetchDay {
  readonly date: string;
  readonly count: number;
}

/**
 * Returns the fetches per day of the last 30 days, newest first, without days that had none.
 *
 * @throws DomainError `forbidden`
 */
export const listFetches = async (ctx: Context, project: ProjectRow): Promise<readonly FetchDay[]> => {
  requireAbility(ctx, project, 'read_statistics');
  return (await fetchesByProjects(ctx, [project.id])).get(project.id) ?? [];
};

/** Returns the same for many projects. The caller must check access. */
export const fetchesByProjects = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, readonly FetchDay[]>> => {
  const rows = await ctx.db
    .selectFrom('project_fetches')
    .select(['project_id', 'day as date', 'count'])
    .where(sql<boolean>`project_id = any (${ids}::bigint[])`)
    .where('day', '>', sql<string>`current_date - ${sql.lit(DAYS)}::int`)
    .orderBy('day', 'desc')
    .execute();
  return Map.groupBy(rows, (row) => row.project_id);
};

/** The job `repositories.forget_fetches`: deletes counts that are older than the API shows. */
export const forgetFetches = defineJob({
  name: 'repositories.forget_fetches',
  input: z.object({}),
  maxAttempts: 3,
  cron: '17 3 * * *',
  run: async ({ db }) => {
    await db
      .deleteFrom('project_fetches')
      .where('day', '<=', sql<string>`current_date - ${sql.lit(DAYS)}::int`)
      .execute();
  },
});
