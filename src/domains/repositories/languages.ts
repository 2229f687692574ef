import { sql } from 'kysely';
import { z } from 'zod';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import { findProject } from '#domains/projects/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';
import { detectLanguagesOf } from './languages/detect.ts';
import { branchRef } from './model.ts';

export interface ProjectLanguage {
  readonly name: string;
  /** Percent of all bytes in known languages. */
  readonly share: number;
}

/**
 * The job `repositories.detect_languages`: detects the languages of the files in the default branch. Skips the work if
 * the branch has not moved.
 */
export const detectLanguages = defineJob({
  name: 'repositories.detect_languages',
  input: z.object({ project_id: z.number() }),
  maxAttempts: 5,
  run: (ctx, { project_id }) => readLanguages(ctx, project_id),
});

const AT_ONCE = 100;

/**
 * The job `repositories.detect_missing_languages`: detects the languages of older projects once, in batches. Migration
 * 0038 schedules it.
 */
export const detectMissingLanguages = defineJob({
  name: 'repositories.detect_missing_languages',
  input: z.object({ after: z.number() }),
  maxAttempts: 25,
  long: true,
  run: (ctx, { after }) => readMissing(ctx, after),
});

const readMissing = async (ctx: Context, after: number): Promise<void> => {
  const { rows } = await sql<{ id: number }>`
    select id from projects where id > ${after} and not empty_repo and not exists (
      select from repository_upkeep u where u.project_id = projects.id and u.languages_of is not null)
    order by id limit ${AT_ONCE}`.execute(ctx.db);
  for (const { id } of rows) {
    ctx.signal.throwIfAborted();
    // A failing project does not stop the others. Its languages are read after its next push.
    await readLanguages(ctx, id).catch((error: unknown) => {
      ctx.signal.throwIfAborted();
      ctx.log.warn({ err: error, project_id: id }, 'the languages of a project could not be read');
    });
  }
  const last = rows.at(-1);
  if (last === undefined) return;
  await ctx.transaction(async (tx) => {
    tx.enqueue(detectMissingLanguages, { after: last.id }, { key: detectMissingLanguages.name });
  });
};

const readLanguages = async (ctx: Context, project_id: number): Promise<void> => {
  const project = await findProject(ctx, { id: project_id });
  if (!project) return;
  const head = await headOf(ctx, project);
  const known = await ctx.db
    .selectFrom('repository_upkeep')
    .select('languages_of')
    .where('project_id', '=', project_id)
    .executeTakeFirst();
  if ((known?.languages_of ?? null) === head) return;
  const bytes = head === null ? new Map<string, number>() : await detectLanguagesOf(ctx, project.disk_path, head);
  await ctx.transaction(async (tx) => {
    const now = await findProject(tx, { id: project_id });
    // The project was deleted, or the branch has moved and the move has scheduled this job again.
    if (!now || (await headOf(tx, now)) !== head) return;
    await saveLanguages(tx, project_id, head, bytes);
  });
};

/**
 * Returns the languages of the project, largest share first.
 *
 * @throws DomainError `forbidden`, `not_found` if the code is hidden
 */
export const listLanguages = async (ctx: Context, project: ProjectRow): Promise<readonly ProjectLanguage[]> => {
  requireAbility(ctx, project, 'read_code');
  return (await languagesByProjects(ctx, [project.id])).get(project.id) ?? [];
};

/** Returns the same for many projects. The caller must check access. */
export const languagesByProjects = async (
  ctx: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, readonly ProjectLanguage[]>> => {
  const rows = await ctx.db
    .selectFrom('project_languages')
    .select(['project_id', 'name', 'share'])
    .where(sql<boolean>`project_id = any (${ids}::bigint[])`)
    .orderBy('bytes', 'desc')
    .orderBy('name')
    .execute();
  return Map.groupBy(rows, (row) => row.project_id);
};

const headOf = async (ctx: Context, { disk_path, default_branch }: ProjectRow): Promise<string | null> =>
  default_branch === null ? null : ctx.services.git.resolve(disk_path, branchRef(default_branch));

const saveLanguages = async (
  tx: Tx,
  projectId: number,
  head: string | null,
  bytes: ReadonlyMap<string, number>,
): Promise<void> => {
  await sql`
    insert into repository_upkeep (project_id, languages_of) values (${projectId}, ${head})
    on conflict (project_id) do update set languages_of = excluded.languages_of`.execute(tx.db);
  await tx.db.deleteFrom('project_languages').where('project_id', '=', projectId).execute();
  const total = [...bytes.values()].reduce((sum, size) => sum + size, 0);
  if (total === 0) return;
  await tx.db
    .insertInto('project_languages')
    .values(
      [...bytes].map(([name, size]) => ({ project_id: projectId, name, bytes: size, share: (size / total) * 100 })),
    )
    .execute();
};
