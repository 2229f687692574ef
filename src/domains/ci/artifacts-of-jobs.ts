import { sql } from 'kysely';
import type { Context } from '#platform/context.ts';

/** The facts about an artifact that the record of a job shows. */
export interface JobArtifact {
  readonly job_id: number;
  readonly file_type: string;
  readonly file_format: string;
  readonly filename: string;
  /** Bytes. */
  readonly size: number;
  readonly expire_at: string | null;
}

/**
 * Returns the artifacts of each of these jobs, the archive first and a stored log last. Artifacts and logs are domains
 * above this one.
 */
export const artifactsOfJobs = async (
  ctx: Pick<Context, 'db'>,
  jobIds: readonly number[],
): Promise<Map<number, JobArtifact[]>> => {
  if (jobIds.length === 0) return new Map();
  const { rows } = await sql<JobArtifact>`
    select job_id, file_type, file_format, filename, size, expire_at from (
      select job_id, file_type, file_format, filename, size, expire_at, id from job_artifacts
        where job_id = any (${[...jobIds]}::bigint[])
      union all
      select job_id, 'trace', 'raw', 'job.log', size, null, null from job_traces
        where job_id = any (${[...jobIds]}::bigint[]) and storage_key is not null
    ) as files order by job_id, file_type <> 'archive', id nulls last`.execute(ctx.db);
  return Map.groupBy(rows, ({ job_id }) => job_id);
};
