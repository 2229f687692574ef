import type { Insertable } from 'kysely';
import type { Database } from '#platform/db/pool.ts';
import type { Jobs, MergeRequestDiffFiles, MergeRequests, Pipelines, Releases } from '#platform/db/tables.ts';

/** Inserts a merge request directly, as an import does. It gets the next number in the project. */
export const insertMergeRequest = async (
  db: Database,
  { project_id, ...attributes }: Partial<Insertable<MergeRequests>> & { readonly project_id: number },
) => {
  const { iid: last } = await db
    .selectFrom('merge_requests')
    .select(({ fn }) => fn.max<number | null>('iid').as('iid'))
    .where('project_id', '=', project_id)
    .executeTakeFirstOrThrow();
  const iid = (last ?? 0) + 1;
  return db
    .insertInto('merge_requests')
    .values({
      iid,
      title: `Merge request ${iid}`,
      source_branch: `feature-${iid}`,
      target_branch: 'main',
      source_project_id: project_id,
      project_id,
      ...attributes,
    })
    .returning(['id', 'iid', 'title', 'project_id'])
    .executeTakeFirstOrThrow();
};

/** Inserts the newest diff of the merge request with its files and commits. */
export const insertDiff = async (
  db: Database,
  merge_request_id: number,
  {
    files = [],
    shas = [],
  }: {
    readonly files?: readonly (Partial<Insertable<MergeRequestDiffFiles>> & { readonly new_path: string })[];
    readonly shas?: readonly string[];
  },
): Promise<void> => {
  const { id: diff_id } = await db
    .insertInto('merge_request_diffs')
    .values({
      merge_request_id,
      base_commit_sha: 'b'.repeat(40),
      start_commit_sha: 'c'.repeat(40),
      head_commit_sha: shas[0] ?? null,
      real_size: String(files.length),
      files_count: files.length,
      commits_count: shas.length,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  for (const [relative_order, file] of files.entries()) {
    await db
      .insertInto('merge_request_diff_files')
      .values({ diff_id, relative_order, old_path: file.new_path, a_mode: '100644', b_mode: '100644', ...file })
      .execute();
  }
  for (const [relative_order, sha] of shas.entries()) {
    await db
      .insertInto('merge_request_diff_commits')
      .values({
        diff_id,
        relative_order,
        sha,
        message: `Commit ${relative_order}\n\nBody`,
        author_name: 'Ada',
        author_email: 'ada@example.com',
        authored_date: '2026-01-02T10:00:00Z',
        committer_name: 'Ada',
        committer_email: 'ada@example.com',
        committed_date: '2026-01-02T11:00:00Z',
        trailers: JSON.stringify({ 'Signed-off-by': 'Ada' }),
      })
      .execute();
  }
};

/** Inserts a pipeline with its jobs. Each job is in the stage that its `stage` names. */
export const insertPipeline = async (
  db: Database,
  { project_id, ...attributes }: Partial<Insertable<Pipelines>> & { readonly project_id: number },
  jobs: readonly (Partial<Insertable<Jobs>> & { readonly name: string; readonly stage: string })[] = [],
) => {
  const { iid: last } = await db
    .selectFrom('pipelines')
    .select(({ fn }) => fn.max<number | null>('iid').as('iid'))
    .where('project_id', '=', project_id)
    .executeTakeFirstOrThrow();
  const pipeline = await db
    .insertInto('pipelines')
    .values({ iid: (last ?? 0) + 1, ref: 'main', sha: 'a'.repeat(40), status: 'success', project_id, ...attributes })
    .returning(['id', 'iid', 'project_id'])
    .executeTakeFirstOrThrow();
  const stages = new Map<string, number>();
  const ids: number[] = [];
  for (const { stage, ...job } of jobs) {
    let stage_id = stages.get(stage);
    if (stage_id === undefined) {
      const made = await db
        .insertInto('stages')
        .values({ pipeline_id: pipeline.id, name: stage, status: 'success', position: stages.size })
        .returning('id')
        .executeTakeFirstOrThrow();
      stage_id = made.id;
      stages.set(stage, stage_id);
    }
    const made = await db
      .insertInto('jobs')
      .values({ project_id, pipeline_id: pipeline.id, stage_id, status: 'success', ref: 'main', ...job })
      .returning('id')
      .executeTakeFirstOrThrow();
    ids.push(made.id);
  }
  return { ...pipeline, jobs: ids };
};

export const insertRelease = (
  db: Database,
  attributes: Partial<Insertable<Releases>> & { readonly project_id: number; readonly tag: string },
) => db.insertInto('releases').values(attributes).returning(['id', 'tag']).executeTakeFirstOrThrow();
