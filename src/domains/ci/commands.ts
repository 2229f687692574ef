import { sql } from 'kysely';
import { PRIVATE, REPORTER } from '#domains/access/model.ts';
import { nextIid } from '#domains/projects/commands.ts';
import { type ProjectRow, projectScope } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import { isProtectedRef } from '#domains/repositories/protections.ts';
import type { Context, Tx } from '#platform/context.ts';
import { badParameters, DomainError, invalid, notFound } from '#platform/errors.ts';
import { validRefName } from '#platform/git/ref-names.ts';
import { isoTime } from '#platform/time.ts';
import { commitStatusReported, pipelineCreated, pipelineUpdated } from './events.ts';
import { isComplete, pipelineStatus, type ReportedState, statusOf, stepProblem } from './model.ts';
import { type JobRow, jobByIdIn, type PipelineRow, pipelinesByIds } from './queries.ts';

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
 *   for an invalid transition
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
    const ref = report.ref ?? found?.ref ?? branch;
    if (ref === null) throw notFound('References for commit');
    const isProtected = await isProtectedRef(tx, project, { name: ref, tag });
    const pipeline = found ?? (await createPipeline(tx, project, { sha, ref, tag, protected: isProtected }));
    const id = await step(tx, pipeline, { ...report, ref, tag, protected: isProtected });
    await refreshPipeline(tx, project, pipeline, found === null);
    const job = await jobByIdIn(tx, id);
    const { name, status } = job;
    tx.emit(commitStatusReported, {
      ...about(project),
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
  else if (name.length > MAX_NAME) problems.name = [`is too long (maximum is ${MAX_NAME} characters)`];
  if (description && description.length > MAX_TEXT)
    problems.description = [`is too long (maximum is ${MAX_TEXT} characters)`];
  if (target_url && target_url.length > MAX_TEXT)
    problems.target_url = [`is too long (maximum is ${MAX_TEXT} characters)`];
  else if (target_url && !isWebAddress(target_url))
    problems.target_url = ['is blocked: Only allowed schemes are http, https'];
  if (coverage != null && !(coverage >= 0 && coverage <= 100)) problems.coverage = ['must be between 0 and 100'];
  if (Object.keys(problems).length > 0) throw invalid(problems);
};

/** It is shown as a link, so it must not be a script. */
const isWebAddress = (text: string): boolean => {
  const url = URL.parse(text);
  return url !== null && (url.protocol === 'http:' || url.protocol === 'https:');
};

/** Returns the default branch if it contains the commit, else the first branch that does, else null. */
const branchWith = async (ctx: Context, project: ProjectRow, sha: string): Promise<string | null> => {
  const prefix = 'refs/heads/';
  const refs = await ctx.services.git.refsContaining(project.disk_path, sha, prefix, { signal: ctx.signal });
  const names = refs.map((ref) => ref.slice(prefix.length));
  const { default_branch } = project;
  return default_branch !== null && names.includes(default_branch) ? default_branch : (names[0] ?? null);
};

/** Finds the given pipeline, or the newest one of the commit, limited to the branch or tag if one is given. */
const findPipeline = async (
  tx: Tx,
  project: ProjectRow,
  sha: string,
  { ref, pipeline_id }: StatusReport,
): Promise<PipelineRow | null> => {
  let query = tx.db
    .selectFrom('pipelines')
    .select('id')
    .where('project_id', '=', project.id)
    .where('sha', '=', sha)
    .orderBy('id', 'desc')
    .limit(1);
  if (ref !== undefined) query = query.where('ref', '=', ref);
  if (pipeline_id !== undefined) query = query.where('id', '=', pipeline_id);
  const row = await query.executeTakeFirst();
  if (!row && pipeline_id !== undefined) throw notFound('Pipeline');
  return (row && (await pipelinesByIds(tx, [row.id])).get(row.id)) ?? null;
};

const createPipeline = async (
  tx: Tx,
  project: ProjectRow,
  attributes: { readonly sha: string; readonly ref: string; readonly tag: boolean; readonly protected: boolean },
): Promise<PipelineRow> => {
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
  const pipeline = (await pipelinesByIds(tx, [id])).get(id);
  if (!pipeline) throw notFound('Pipeline');
  return pipeline;
};

/** Writes the status: updates the caller's unfinished one, or inserts a new one that replaces older ones. */
const step = async (
  tx: Tx,
  pipeline: PipelineRow,
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

/** Recomputes status and times of the stage and the pipeline. Emits an event if the pipeline's status changed. */
const refreshPipeline = async (tx: Tx, project: ProjectRow, before: PipelineRow, isNew: boolean): Promise<void> => {
  const jobs = await tx.db
    .selectFrom('jobs')
    .select(['stage_id', 'status', 'allow_failure'])
    .where('pipeline_id', '=', before.id)
    .where('retried', '=', false)
    .execute();
  const ofStage = jobs.filter(({ stage_id }) => stage_id !== null);
  for (const [stage_id, each] of Map.groupBy(ofStage, (job) => job.stage_id)) {
    await tx.db
      .updateTable('stages')
      .set({ status: pipelineStatus(each), updated_at: sql`now()` })
      .where('id', '=', stage_id)
      .where('name', '=', STAGE.name)
      .execute();
  }
  const status = pipelineStatus(jobs);
  if (status === before.status) return;
  const isOver = isComplete({ status });
  await tx.db
    .updateTable('pipelines')
    .set({
      status,
      updated_at: sql`now()`,
      started_at: status === 'running' ? sql`coalesce(started_at, now())` : before.started_at,
      finished_at: isOver ? sql`now()` : null,
      duration: isOver ? sql`extract(epoch from now() - started_at)::integer` : null,
    })
    .where('id', '=', before.id)
    .execute();
  const pipeline = (await pipelinesByIds(tx, [before.id])).get(before.id);
  if (!pipeline) return;
  const { id, iid, name, ref, tag, sha, before_sha, source, user_id, duration } = pipeline;
  tx.emit(isNew ? pipelineCreated : pipelineUpdated, {
    ...about(project),
    subject: { type: 'Ci::Pipeline', id },
    payload: {
      ...{ id, iid, name, ref, tag, sha, before_sha, source, status, user_id, duration },
      created_at: isoTime(pipeline.created_at),
      started_at: isoTime(pipeline.started_at),
      finished_at: isoTime(pipeline.finished_at),
    },
  });
};

const about = (project: ProjectRow) => ({ ...projectScope(project), min_access_level: pipelineAudience(project) });

/** Returns the lowest role that sees pipelines; null if everyone who can see the project does. */
const pipelineAudience = (project: ProjectRow): number | null => {
  if (project.visibility_level === PRIVATE || !project.public_jobs) return REPORTER;
  return project.builds_access_level === 'enabled' && project.repository_access_level === 'enabled' ? null : REPORTER;
};
