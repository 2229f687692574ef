import { sql } from 'kysely';
import { z } from 'zod';
import { withOtherOwners } from '#domains/approvals/of-version.ts';
import { can } from '#domains/projects/policy.ts';
import { findProject, type ProjectRow, projectsByIds, ROW } from '#domains/projects/queries.ts';
import { branchRef } from '#domains/repositories/model.ts';
import { type Context, systemActor } from '#platform/context.ts';
import { defineJob } from '#platform/jobs.ts';
import { mergeRequestChecked } from '../events.ts';
import { unlessDeleted } from '../locking.ts';
import { getMergeRequest, lockMergeRequest, type MergeRequestRow } from '../queries.ts';
import { emitMergeRequest } from '../snapshot.ts';
import { refreshLater } from '../versions/refresh.ts';

/**
 * Enqueues a check of those merge requests of a list whose merge status is stale. Only for callers who are at least
 * Developer of the project; otherwise, and for those that wait for a check already, nothing happens.
 */
export const recheckMergeStatuses = async (ctx: Context, rows: readonly MergeRequestRow[]): Promise<void> => {
  const stale = rows.filter((row) => row.state === 'opened' && STALE.has(row.merge_status));
  if (stale.length === 0 || ctx.actor.userId === null) return;
  const projects = await projectsByIds(ctx, [...new Set(stale.map(({ project_id }) => project_id))], ROW);
  const wanted = stale.filter(({ project_id }) => {
    const project = projects.get(project_id);
    return project !== undefined && can(ctx, project, 'admin_merge_request');
  });
  if (wanted.length === 0) return;
  await ctx.transaction(async (tx) => {
    for (const { id } of wanted) refreshLater(tx, id);
  });
};

/** The same for one merge request, for everyone who can read it. Repeated requests share one check. */
export const recheckMergeStatus = async (ctx: Context, { id, state, merge_status }: MergeRequestRow): Promise<void> => {
  if (state !== 'opened' || !STALE.has(merge_status)) return;
  await ctx.transaction(async (tx) => refreshLater(tx, id));
};

const STALE: ReadonlySet<string> = new Set(['unchecked', 'cannot_be_merged_recheck']);

/**
 * The job `merge_requests.recheck_target`: checks the open merge requests into a branch that has moved. One git process
 * merges a hundred of them. A merge request gets a refresh of its own if more than its merge status may have changed.
 */
export const recheckTarget = defineJob({
  name: 'merge_requests.recheck_target',
  input: z.object({ project_id: z.number(), branch: z.string() }),
  maxAttempts: 8,
  long: true,
  run: async (ctx, { project_id, branch }) => {
    const project = await findProject({ ...ctx, actor: systemActor }, { id: project_id });
    if (!project) return;
    const { git } = ctx.services;
    const tip = await git.resolve(project.disk_path, branchRef(branch));
    const rows = await openInto(ctx, project, branch);
    const same = tip === null ? [] : await unchanged(ctx, project, tip, rows);
    const known = new Set(same.map(({ id }) => id));
    const others = rows.filter(({ id }) => !known.has(id));
    await ctx.transaction(async (tx) => {
      for (const { id } of others) refreshLater(tx, id);
    });
    if (tip === null || same.length === 0) return;
    const clean = await git.mergeableInto(project.disk_path, tip, [...new Set(same.map(({ head }) => head))], {
      signal: ctx.signal,
    });
    for (const row of same) {
      const mergeStatus = clean.has(row.head) ? 'can_be_merged' : 'cannot_be_merged';
      const needsRebase = row.base !== tip;
      const isEmitted = project.merge_method !== 'merge' && row.needs_rebase !== needsRebase;
      if (row.merge_status === mergeStatus && !isEmitted) continue;
      await storeStatus(ctx, project, row, { tip, branch, mergeStatus, needsRebase });
    }
    // With merge commits this changes nothing for clients, so no event is emitted.
    const behind = same.filter((row) => row.base !== tip && !row.needs_rebase).map(({ id }) => id);
    await sql`update merge_requests set needs_rebase = true where id = any (${behind}::bigint[]) and state = 'opened'`.execute(
      ctx.db,
    );
  },
});

/** An open merge request with its newest version. */
interface OpenInto
  extends Pick<
    MergeRequestRow,
    'id' | 'iid' | 'source_project_id' | 'source_branch' | 'merge_status' | 'needs_rebase'
  > {
  readonly head: string;
  readonly base: string | null;
  readonly start: string | null;
  readonly commits_count: number;
  /** Something else must happen than a check. */
  readonly is_special: boolean;
}

const openInto = async (ctx: Context, project: ProjectRow, branch: string): Promise<readonly OpenInto[]> => {
  const { rows } = await sql<OpenInto>`
    select mr.id, mr.iid, mr.source_project_id, mr.source_branch, mr.merge_status, mr.needs_rebase, d.head_commit_sha as head,
      d.base_commit_sha as base, d.start_commit_sha as start, coalesce(d.commits_count, 0) as commits_count,
      (d.id is null or mr.prepared_at is null or mr.merge_when_pipeline_succeeds or mr.branch_missing
        or mr.diff_head_sha is distinct from d.head_commit_sha) as is_special
    from merge_requests mr left join merge_request_diffs d on d.merge_request_id = mr.id and d.is_latest
    where mr.project_id = ${project.id} and mr.target_branch = ${branch} and mr.state = 'opened'
    order by mr.id`.execute(ctx.db);
  return rows;
};

/**
 * Returns those whose source branch still has the head of their newest version, and for which the target branch has
 * only gained commits of others, with the same code owners. Their version stays as it is.
 */
const unchanged = async (
  ctx: Context,
  project: ProjectRow,
  tip: string,
  rows: readonly OpenInto[],
): Promise<readonly OpenInto[]> => {
  const { git } = ctx.services;
  const path = project.disk_path;
  const isOid = (oid: string | null): oid is string => oid !== null && /^[0-9a-f]{40}$/.test(oid);
  const sourceIds = [...new Set(rows.flatMap(({ source_project_id }) => source_project_id ?? []))];
  const sources = await projectsByIds({ ...ctx, actor: systemActor }, sourceIds, ROW);
  const current: (OpenInto & { readonly start: string })[] = [];
  for (const row of rows) {
    const { start, source_project_id } = row;
    if (row.is_special || row.commits_count === 0 || ![row.head, row.base].every(isOid) || !isOid(start)) continue;
    const source = source_project_id === null ? undefined : sources.get(source_project_id);
    const head = source && (await git.resolve(source.disk_path, branchRef(row.source_branch)));
    if (head === row.head) current.push({ ...row, start });
  }
  if (current.length === 0) return [];
  // Versions of imports may name commits that the repository lacks.
  const named = [...new Set(current.flatMap(({ head, start }) => [head, start]))];
  const there = new Set((await git.readCommits(path, named)).map(({ id }) => id));
  const read = current.filter(({ head, start }) => there.has(head) && there.has(start));
  const starts = await git.containedIn(path, tip, [...new Set(read.map(({ start }) => start))]);
  const ahead = await git.commitsAhead(path, tip, [...new Set(read.map(({ head }) => head))]);
  const ids = read.map(({ id }) => id);
  const owned = await withOtherOwners(ctx, project, tip, ids);
  // While the target branch keeps what it had and lacks as many commits as before, the merge base is the same too.
  return read.filter(
    (row) => starts.has(row.start) && ahead?.get(row.head) === row.commits_count && !owned.has(row.id),
  );
};

interface Checked {
  readonly tip: string;
  readonly branch: string;
  readonly mergeStatus: string;
  readonly needsRebase: boolean;
}

/** Stores the merge status, unless the branches have moved meanwhile: then another check is under way. */
const storeStatus = (
  ctx: Context,
  project: ProjectRow,
  row: OpenInto,
  { tip, branch, mergeStatus, needsRebase }: Checked,
): Promise<void> =>
  ctx.transaction(async (tx) => {
    const before = await lockMergeRequest(tx.as(systemActor), project, row).catch(unlessDeleted);
    if (before?.state !== 'opened' || before.diff_head_sha !== row.head || before.target_branch !== branch) return;
    if (before.merge_status === mergeStatus && before.needs_rebase === needsRebase) return;
    if ((await tx.services.git.resolve(project.disk_path, branchRef(branch))) !== tip) return;
    await tx.db
      .updateTable('merge_requests')
      .set({ merge_status: mergeStatus, needs_rebase: needsRebase })
      .where('id', '=', row.id)
      .execute();
    const after = await getMergeRequest(tx.as(systemActor), project, row.iid);
    await emitMergeRequest(tx, mergeRequestChecked, project, after, {});
  });
