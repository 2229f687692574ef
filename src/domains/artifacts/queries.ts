import { type Selectable, sql } from 'kysely';
import { DANGLING_SOURCES } from '#domains/ci/model.ts';
import { ARTIFACT_ACCESSES, type ArtifactAccess } from '#domains/ci-config/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import { type BatchedList, batchedListOf } from '#platform/db/batched-list.ts';
import { CompiledStatements, runCompiled, slot } from '#platform/db/compiled.ts';
import type { JobArtifacts } from '#platform/db/tables.ts';
import { notFound } from '#platform/errors.ts';
import { definePort } from '#platform/port.ts';
import type { FileType } from './model.ts';
import { requireDownload } from './policy.ts';

/** An artifact without what was read of its content. */
export type ArtifactRow = Omit<Selectable<JobArtifacts>, 'index_paths' | 'index_offsets' | 'report_summary'>;

export interface FoundArtifact extends ArtifactRow {
  /** Past its expiry and not locked. It is about to be removed. */
  readonly expired: boolean;
  /** Where the block of the index starts that must have the requested path, and where it ends. Null if none can. */
  readonly block_start: number | null;
  readonly block_end: number | null;
}

const COLUMNS = [
  'id',
  'project_id',
  'job_id',
  'file_type',
  'file_format',
  'filename',
  'size',
  'sha256',
  'storage_key',
  'access',
  'expire_at',
  'locked',
  'index_key',
  'entries',
  'index_problem',
  'created_at',
] as const;

/** Returns the stored text as an access. */
export const accessOf = ({ access }: { readonly access: string }): ArtifactAccess =>
  ARTIFACT_ACCESSES.find((each) => each === access) ?? 'none';

/**
 * Returns the archive of a job that the caller may download. With the path of a file, also where the index has it.
 *
 * @throws DomainError as `requireDownload`, `not_found` if there is no such job, or it has no archive
 */
export const getArchive = async (
  ctx: Context,
  project: ProjectRow,
  jobId: number,
  path?: string,
): Promise<FoundArtifact> => {
  requireAbility(ctx, project, 'read_pipeline');
  const archive = await findArchive(ctx, project, jobId, path);
  if (!archive) throw notFound();
  requireDownload(ctx, project, accessOf(archive));
  return archive;
};

/**
 * Returns the artifact of a job with this type that the caller may download.
 *
 * @throws DomainError as `requireDownload`, `not_found` if there is no such job, or it has none
 */
export const getArtifact = async (
  ctx: Context,
  project: ProjectRow,
  jobId: number,
  file_type: FileType,
): Promise<ArtifactRow> => {
  requireAbility(ctx, project, 'read_pipeline');
  const artifact = await ctx.db
    .selectFrom('job_artifacts')
    .select(COLUMNS)
    .where('job_id', '=', jobId)
    .where('project_id', '=', project.id)
    .where('file_type', '=', file_type)
    .executeTakeFirst();
  if (!artifact) throw notFound();
  requireDownload(ctx, project, accessOf(artifact));
  return artifact;
};

const statements = new CompiledStatements();

/**
 * Returns the archive of a job of the project, or null. With the path of a file, also where the index has it. The caller
 * checks access.
 */
export const findArchive = async (
  ctx: Context,
  project: ProjectRow,
  job: number,
  path: string | null = null,
): Promise<FoundArtifact | null> => {
  const statement = statements.get(
    ctx,
    'archive',
    () => sql`
      select ${sql.join(COLUMNS.map((name) => sql.ref(`archive.${name}`)))},
        coalesce(archive.expire_at <= now(), false) and not archive.locked as expired,
        archive.index_offsets[block.number] as block_start, archive.index_offsets[block.number + 1] as block_end
      from job_artifacts archive join jobs on jobs.id = archive.job_id,
        width_bucket(${slot('path')}, archive.index_paths) as block (number)
      where archive.job_id = ${slot('job')} and archive.file_type = 'archive'
        and jobs.project_id = ${slot('project')} and jobs.kind <> 'generic_commit_status'`,
  );
  const [archive] = await runCompiled<FoundArtifact>(ctx, statement, { job, project: project.id, path });
  return archive ?? null;
};

/** How many successful pipelines are searched. */
const MAX_SEARCHED = 100;

export interface LatestFilter {
  /** The name of a branch or tag. */
  readonly ref: string;
  /** The whole name of the job. */
  readonly job: string;
  /** Searches older pipelines too, if the newest one has no such archive. */
  readonly searchOlder?: boolean | undefined;
}

/**
 * Returns the archive of a job of the newest successful pipeline of a branch or tag, with the job. Child pipelines of
 * the same project count, after their parent. Pipelines of merge requests do not. The job itself may have failed if it
 * was allowed to.
 *
 * @throws DomainError as `requireDownload`, `not_found` if there is none
 */
export const getLatestArchive = async (
  ctx: Context,
  project: ProjectRow,
  { ref, job: name, searchOlder = false }: LatestFilter,
  path?: string,
): Promise<FoundArtifact> => {
  const { rows } = await sql<{ job_id: number }>`
    with recursive latest as (
      select id from pipelines where project_id = ${project.id} and ref = ${ref} and status = 'success'
        and merge_request_id is null and source <> all (${[...DANGLING_SOURCES]}::text[])
      order by id desc limit ${searchOlder ? MAX_SEARCHED : 1}
    ), family (id, root, depth) as (
      select id, id, 0 from latest
      union
      select child.id, family.root, family.depth + 1 from family
        join jobs bridge on bridge.pipeline_id = family.id and bridge.kind = 'bridge'
        join pipelines child on child.bridge_job_id = bridge.id and child.project_id = ${project.id}
    )
    select job.id as job_id from family
      join jobs job on job.pipeline_id = family.id and job.kind = 'build' and not job.retried and job.name = ${name}
      join job_artifacts archive on archive.job_id = job.id and archive.file_type = 'archive'
    where archive.locked or archive.expire_at is null or archive.expire_at > now()
    order by family.root desc, family.depth, family.id, job.id desc limit 1`.execute(ctx.db);
  requireDownload(ctx, project, 'all');
  const archive = rows[0] ? await findArchive(ctx, project, rows[0].job_id, path) : null;
  if (!archive) throw notFound();
  requireDownload(ctx, project, accessOf(archive));
  return archive;
};

/** Returns an artifact by its id, or null. The caller checks access. */
export const findArtifact = async ({ db }: Pick<Context, 'db'>, id: number): Promise<ArtifactRow | null> =>
  (await db.selectFrom('job_artifacts').select(COLUMNS).where('id', '=', id).executeTakeFirst()) ?? null;

/** Lists the artifacts of many jobs at once. The caller checks access. */
export const listArtifactsBelow = (ctx: Pick<Context, 'db'>): BatchedList<ArtifactRow> =>
  batchedListOf(
    ctx.db,
    (jobId) => ctx.db.selectFrom('job_artifacts').select(COLUMNS).where(sql<boolean>`job_id = ${jobId}`),
    [{ by: sql.ref('job_artifacts.id'), of: (row) => row.id }],
    'asc',
  );

/** At most so many artifacts of a pipeline are listed with it. */
const MAX_OF_PIPELINE = 1_000;

/** Returns the artifacts of the jobs of these pipelines, by pipeline, oldest first. The caller checks access. */
export const artifactsByPipelineIds = async (
  { db }: Pick<Context, 'db'>,
  ids: readonly number[],
): Promise<Map<number, ArtifactRow[]>> => {
  const { rows } = await sql<ArtifactRow & { readonly pipeline_id: number }>`
    select wanted.id as pipeline_id, found.* from unnest(${ids}::bigint[]) as wanted (id) cross join lateral (
      select ${sql.join(COLUMNS.map((name) => sql.ref(`artifact.${name}`)))}
      from jobs join job_artifacts artifact on artifact.job_id = jobs.id
      where jobs.pipeline_id = wanted.id order by artifact.id limit ${sql.lit(MAX_OF_PIPELINE)}
    ) as found`.execute(db);
  return Map.groupBy(rows, ({ pipeline_id }) => pipeline_id);
};

/** Returns whether the runner of the job gets the archive of the earlier one, by their ids. */
export const isDependencyOf = definePort<Context, [jobId: number, earlierId: number], Promise<boolean>>(
  'isDependencyOf',
);

/**
 * Returns the archive of a job for the runner of a later one. A job that depends on the earlier one gets its archive
 * whatever its access.
 *
 * @throws DomainError as `projectOfJob` and `getArchive`
 */
export const getDependency = async (ctx: Context, jobId: number): Promise<FoundArtifact> => {
  const project = await projectOfJob(ctx, jobId);
  const { job } = ctx.actor;
  if (!job || job.projectId !== project.id || !(await isDependencyOf(ctx, job.id, jobId)))
    return getArchive(ctx, project, jobId);
  requireAbility(ctx, project, 'read_pipeline');
  const archive = await findArchive(ctx, project, jobId);
  if (!archive) throw notFound();
  return archive;
};

/** Returns the project of a job. @throws DomainError `not_found`, the same if the caller cannot see the project */
export const projectOfJob = async (ctx: Context, jobId: number): Promise<ProjectRow> => {
  const row = await ctx.db.selectFrom('jobs').select('project_id').where('id', '=', jobId).executeTakeFirst();
  const project = row ? await findProject(ctx, { id: row.project_id }) : null;
  if (!project) throw notFound();
  return project;
};
