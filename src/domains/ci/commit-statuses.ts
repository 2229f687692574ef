import { sql } from 'kysely';
import { nextIid } from '#domains/projects/insert.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import { isProtectedRef } from '#domains/repositories/protections.ts';
import type { Context, Tx } from '#platform/context.ts';
import { badParameters, DomainError, forbidden, notFound, requireValid, tooLong } from '#platform/errors.ts';
import { validRefName } from '#platform/git/ref-names.ts';
import { isWebAddress } from '#platform/urls.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import { commitStatusReported } from './events.ts';
import { DANGLING_SOURCES, isComplete, type ReportedState, statusOf, stepProblem } from './model.ts';
import { eventScope } from './payloads.ts';
import { mayRunOn } from './policy.ts';
import { type LockedPipeline, lockPipeline, processPipeline } from './processing.ts';
import { type JobRow, jobByIdIn } from './queries.ts';

export interface StatusReport {
  readonly state: ReportedState;
  /** The branch or tag of the commit. Derived from the commit if absent. */
  readonly ref?: string | undefined;
  /** Defaults to `default`. */
  readonly name?: string | undefined;
  readonly target_url?: string | null | undefined;
  readonly description?: string | null | undefined;
  /** Percent. */
  readonly coverage?: number | null | undefined;
  readonly pipeline_id?: number | undefined;
}

const MAX_NAME = 255;
const MAX_TEXT = 2_048;
/** The stage of reported statuses, after all other stages. */
const STAGE = { name: 'external', position: 1_000_000 };

/**
 * Records the status that an external system reports for a commit: a new status, or a transition of one that the caller
 * reported and that has not finished. Statuses belong to a pipeline of the commit, which is created if there is none.
 *
 * @throws DomainError as `requireAbility(create_pipeline)`, `not_found` (Commit, Pipeline), `invalid`, `bad_request`
 *   for an invalid transition, `forbidden` if the pipeline has jobs that the caller may not run
 */
export const reportCommitStatus = async (
  ctx: Context,
  project: ProjectRow,
  revision: string,
  report: StatusReport,
): Promise<JobRow> => {
  requireAbility(ctx, project, 'create_pipeline');
  checkReport(report);
  const { git } = ctx.services;
  const sha = await git.resolveCommit(project.disk_path, revision);
  if (sha === null) throw notFound('Commit');
  const branch = report.ref === undefined ? await branchWith(ctx, project, sha) : null;
  const tag =
    report.ref !== undefined &&
    (await git.resolve(project.disk_path, `refs/heads/${report.ref}`)) === null &&
    (await git.resolve(project.disk_path, `refs/tags/${report.ref}`)) !== null;
  return ctx.transaction(async (tx) => {
    // One at a time per commit, so that concurrent reports do not create two pipelines or apply a transition twice.
    await sql`select pg_advisory_xact_lock(hashtextextended(${`millrace:statuses:${project.id}:${sha}`}, 0))`.execute(
      tx.db,
    );
    const found = await findPipeline(tx, project, sha, report);
    // A pipeline of external statuses alone is for all Developers.
    if (found && found.source !== 'external' && !(await mayRunOn(tx, project, found))) throw forbidden();
    const ref = report.ref ?? found?.ref ?? branch;
    if (ref === null) throw notFound('References for commit');
    const isProtected = await isProtectedRef(tx, project, { name: ref, tag });
    const pipeline = found ?? (await createPipeline(tx, project, { sha, ref, tag, protected: isProtected }));
    const id = await step(tx, pipeline, { ...report, ref, tag, protected: isProtected });
    await processPipeline(tx, pipeline, { isNew: found === null });
    const job = await jobByIdIn(tx, id);
    const { name, status } = job;
    tx.emit(commitStatusReported, {
      ...eventScope(pipeline),
      subject: { type: 'CommitStatus', id },
      payload: { id, name, status, sha, ref, pipeline_id: pipeline.id },
    });
    return job;
  });
};

const checkReport = ({ ref, name = 'default', target_url, description, coverage }: StatusReport): void => {
  if (ref !== undefined && !validRefName(ref)) throw badParameters('ref is invalid');
  const problems: Record<string, string[]> = {};
  if (name === '') problems.name = ["can't be blank"];
  else if (isLongerThan(name, MAX_NAME)) problems.name = [tooLong(MAX_NAME)];
  if (description && isLongerThan(description, MAX_TEXT)) problems.description = [tooLong(MAX_TEXT)];
  if (target_url && isLongerThan(target_url, MAX_TEXT)) problems.target_url = [tooLong(MAX_TEXT)];
  else if (target_url && !isWebAddress(target_url))
    problems.target_url = ['is blocked: Only allowed schemes are http, https'];
  if (coverage != null && !(coverage >= 0 && coverage <= 100)) problems.coverage = ['must be between 0 and 100'];
  requireValid(problems);
};

/** Returns the default branch if it contains the commit, else the first branch that does, else null. */
const branchWith = async (ctx: Context, project: ProjectRow, sha: string): Promise<string | null> => {
  const prefix = 'refs/heads/';
  const refs = await ctx.services.git.refsContaining(project.disk_path, sha, prefix, { signal: ctx.signal });
  const names = refs.map((ref) => ref.slice(prefix.length));
  const { default_branch } = project;
  return default_branch !== null && names.includes(default_branch) ? default_branch : (names[0] ?? null);
};

/**
 * Finds the given pipeline, or the newest one of the commit, limited to the branch or tag if one is given. A status does
 * not belong to the children of a pipeline, which do not count for the commit.
 */
const findPipeline = async (
  tx: Tx,
  project: ProjectRow,
  sha: string,
  { ref, pipeline_id }: StatusReport,
): Promise<LockedPipeline | null> => {
  let query = tx.db
    .selectFrom('pipelines')
    .select('id')
    .where('project_id', '=', project.id)
    .where('sha', '=', sha)
    .orderBy('id', 'desc')
    .limit(1);
  if (ref !== undefined) query = query.where('ref', '=', ref);
  if (pipeline_id !== undefined) query = query.where('id', '=', pipeline_id);
  else query = query.where('source', 'not in', [...DANGLING_SOURCES]);
  const row = await query.executeTakeFirst();
  if (!row && pipeline_id !== undefined) throw notFound('Pipeline');
  return row ? lockPipeline(tx, row.id) : null;
};

const createPipeline = async (
  tx: Tx,
  project: ProjectRow,
  attributes: { readonly sha: string; readonly ref: string; readonly tag: boolean; readonly protected: boolean },
): Promise<LockedPipeline> => {
  const { id } = await tx.db
    .insertInto('pipelines')
    .values({
      ...attributes,
      project_id: project.id,
      iid: await nextIid(tx, project.id, 'pipeline'),
      source: 'external',
      user_id: tx.actor.userId,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  const pipeline = await lockPipeline(tx, id);
  if (!pipeline) throw notFound('Pipeline');
  return pipeline;
};

/** Writes the status: updates the caller's unfinished one, or inserts a new one that replaces older ones. */
const step = async (
  tx: Tx,
  pipeline: LockedPipeline,
  report: StatusReport & { readonly ref: string; readonly tag: boolean; readonly protected: boolean },
): Promise<number> => {
  const { state, name = 'default', ref } = report;
  const open = await tx.db
    .selectFrom('jobs')
    .select(['id', 'status'])
    .where('pipeline_id', '=', pipeline.id)
    .where('kind', '=', 'generic_commit_status')
    .where('name', '=', name)
    .where('ref', '=', ref)
    .where('user_id', '=', tx.actor.userId)
    .where('status', 'in', ['pending', 'running'])
    .where('retried', '=', false)
    .executeTakeFirst();
  const problem = open ? stepProblem(statusOf(open), state) : null;
  if (problem !== null) throw new DomainError('bad_request', problem);
  const changes = {
    status: state,
    ...(report.target_url === undefined ? {} : { target_url: report.target_url }),
    ...(report.description === undefined ? {} : { description: report.description }),
    ...(report.coverage === undefined ? {} : { coverage: report.coverage }),
    ...(state === 'pending' ? { queued_at: sql<string>`now()` } : {}),
    ...(state === 'running' ? { started_at: sql<string>`now()` } : {}),
    ...(isComplete({ status: state }) ? { finished_at: sql<string>`now()` } : {}),
    ...(state === 'failed' ? { failure_reason: 'api_failure' } : {}),
    updated_at: sql<string>`now()`,
  };
  if (open) {
    await tx.db.updateTable('jobs').set(changes).where('id', '=', open.id).execute();
    return open.id;
  }
  await tx.db
    .updateTable('jobs')
    .set({ retried: true })
    .where('pipeline_id', '=', pipeline.id)
    .where('kind', '=', 'generic_commit_status')
    .where('name', '=', name)
    .where('retried', '=', false)
    .execute();
  const { id } = await tx.db
    .insertInto('jobs')
    .values({
      ...changes,
      project_id: pipeline.project_id,
      pipeline_id: pipeline.id,
      stage_id: await stageIn(tx, pipeline.id),
      stage_idx: STAGE.position,
      kind: 'generic_commit_status',
      name,
      ref,
      tag: report.tag,
      protected: report.protected,
      user_id: tx.actor.userId,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  return id;
};

const stageIn = async (tx: Tx, pipeline_id: number): Promise<number> => {
  const found = await tx.db
    .selectFrom('stages')
    .select('id')
    .where('pipeline_id', '=', pipeline_id)
    .where('name', '=', STAGE.name)
    .executeTakeFirst();
  if (found) return found.id;
  const made = await tx.db
    .insertInto('stages')
    .values({ ...STAGE, pipeline_id })
    .returning('id')
    .executeTakeFirstOrThrow();
  return made.id;
};
