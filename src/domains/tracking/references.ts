import { sql } from 'kysely';
import { z } from 'zod';
import { PRIVATE, PUBLIC } from '#domains/access/model.ts';
import type { IssueRow } from '#domains/issues/model.ts';
import { issuesByIds } from '#domains/issues/queries.ts';
import { referencedIssues } from '#domains/issues/references.ts';
import { type MergeRequestRow, mergeRequestsByIds } from '#domains/merge-requests/queries.ts';
import {
  commitMessages,
  publicComments,
  referencedMergeRequests,
  referencesIn,
} from '#domains/merge-requests/references.ts';
import { recordSystemNotes } from '#domains/planning/system-notes.ts';
import type { ProjectRow } from '#domains/projects/queries.ts';
import { contextFor } from '#domains/tokens/acting.ts';
import type { Context, Tx } from '#platform/context.ts';
import { defineFollower } from '#platform/event-log/followers.ts';
import { defineJob } from '#platform/jobs.ts';
import { findTracked, issuableOf, type Tracked, type TrackedKind } from './tracked.ts';

const TEXT_EVENTS: ReadonlySet<string> = new Set([
  'issue.opened',
  'issue.updated',
  'merge_request.opened',
  'merge_request.updated',
  'merge_request.prepared',
  'note.created',
  'note.updated',
]);

/**
 * Reads the references of texts that changed, in a job with the rights of the person who wrote them. The hub itself makes
 * versions, so their commits are read with the rights of the author of the merge request.
 */
export const followTexts = defineFollower({
  name: 'tracking.texts',
  payloads: false,
  wants: ({ kind }) => TEXT_EVENTS.has(kind),
  handle: async (tx, events) => {
    const { rows } = await sql<{ kind: TrackedKind; id: number; user_id: number }>`
      select case when coalesce(n.issue_id, 0) > 0 or e.subject_type = 'Issue' then 'issue' else 'merge_request' end as kind,
        coalesce(n.issue_id, n.merge_request_id, e.subject_id) as id,
        (array_agg(coalesce(e.actor_id, m.author_id) order by e.id desc))[1] as user_id
      from events e left join notes n on e.subject_type = 'Note' and n.id = e.subject_id
        left join merge_requests m on e.subject_type = 'MergeRequest' and m.id = e.subject_id
      where e.position = any (${events.map(({ position }) => position)}::bigint[]) and coalesce(e.actor_id, m.author_id) is not null
        and (e.subject_type <> 'Note' or num_nonnulls(n.issue_id, n.merge_request_id) = 1)
      group by 1, 2`.execute(tx.db);
    for (const { kind, id, user_id } of rows) {
      tx.enqueue(readReferences, { kind, id, user_id }, { key: `tracking.references:${kind}:${id}` });
    }
  },
});

/**
 * The job `tracking.read_references`: stores what an issue or merge request mentions, and adds a note to those that are mentioned
 * for the first time.
 */
export const readReferences = defineJob({
  name: 'tracking.read_references',
  input: z.object({ kind: z.enum(['issue', 'merge_request']), id: z.number(), user_id: z.number() }),
  maxAttempts: 5,
  run: async (hub, { kind, id, user_id }) => {
    const tracked = await findTracked(hub, kind, id);
    const ctx = tracked && (await contextFor(hub, user_id, tracked.project.id));
    const from = ctx && (await findTracked(ctx, kind, id));
    if (from) await storeReferences(ctx, from);
  },
});

interface Target {
  readonly to_issue_id: number | null;
  readonly to_merge_request_id: number | null;
  readonly project_id: number;
  readonly closes: boolean;
}

/** Stores what the texts mention. Nothing is noted where it is mentioned if that is `isNoted` already. */
export const storeReferences = async (ctx: Context, from: Tracked, { isNoted = false } = {}): Promise<void> => {
  const targets = await targetsOf(ctx, from);
  const columns = { from_issue_id: null, from_merge_request_id: null, [`from_${from.kind}_id`]: from.row.id };
  await ctx.transaction(async (tx) => {
    // Two jobs for the same texts run one after the other.
    await sql`select from ${sql.table(`${from.kind}s`)} where id = ${from.row.id} for update`.execute(tx.db);
    await sql`
      update cross_references set closes = false
      where ${sql.ref(`from_${from.kind}_id`)} = ${from.row.id} and closes
        and not to_issue_id = any (${targets.filter(({ closes }) => closes).map((each) => each.to_issue_id)}::bigint[])`.execute(
      tx.db,
    );
    if (targets.length === 0) return;
    const { rows } = await sql<{ to_issue_id: number | null; to_merge_request_id: number | null; is_new: boolean }>`
      insert into cross_references (from_issue_id, from_merge_request_id, to_issue_id, to_merge_request_id, closes)
      select ${columns.from_issue_id}::bigint, ${columns.from_merge_request_id}::bigint, t.issue_id, t.merge_request_id, t.closes
      from unnest(${targets.map((each) => each.to_issue_id)}::bigint[],
        ${targets.map((each) => each.to_merge_request_id)}::bigint[],
        ${targets.map((each) => each.closes)}::boolean[]) as t (issue_id, merge_request_id, closes)
      on conflict (from_merge_request_id, from_issue_id, to_issue_id, to_merge_request_id)
        do update set closes = excluded.closes
      returning to_issue_id, to_merge_request_id, xmax = 0 as is_new`.execute(tx.db);
    for (const row of rows) {
      const target = targets.find(
        (each) => each.to_issue_id === row.to_issue_id && each.to_merge_request_id === row.to_merge_request_id,
      );
      if (row.is_new && target && !isNoted) await noteMention(tx, from, target);
    }
  });
};

/** Returns what the texts mention and their author can see, without the subject itself. */
const targetsOf = async (ctx: Context, from: Tracked): Promise<Target[]> => {
  const { project, row } = from;
  const commits = from.kind === 'merge_request' ? await commitMessages(ctx, row) : [];
  const own = [row.title, row.description, ...commits];
  const references = referencesIn(ctx, [...own, ...(await publicComments(ctx, issuableOf(from)))]);
  // A comment closes nothing.
  const merges = from.kind === 'merge_request' && from.row.target_branch === project.default_branch;
  const named = merges ? await referencedIssues(ctx, project, referencesIn(ctx, own)) : [];
  const closing = new Set(named.flatMap(({ issue, closes }) => (closes ? issue.id : [])));
  const issues = (await referencedIssues(ctx, project, references)).map(({ issue }) => ({
    to_issue_id: issue.id,
    to_merge_request_id: null,
    project_id: issue.project_id,
    closes: closing.has(issue.id),
  }));
  const mergeRequests = (await referencedMergeRequests(ctx, project, references)).map((found) => ({
    to_issue_id: null,
    to_merge_request_id: found.id,
    project_id: found.project_id,
    closes: false,
  }));
  return [...issues, ...mergeRequests].filter((target) => target[`to_${from.kind}_id`] !== row.id);
};

/** Records a system note where something is mentioned, for those of its readers who may see what mentions it. */
const noteMention = async (tx: Tx, from: Tracked, target: Target): Promise<void> => {
  const { kind, project, row } = from;
  const readers = await readersOfMention(tx, from, target);
  if (readers === 'nobody') return;
  const path = target.project_id === project.id ? '' : project.full_path;
  const body =
    kind === 'issue' ? `mentioned in issue ${path}#${row.iid}` : `mentioned in merge request ${path}!${row.iid}`;
  const of =
    target.to_issue_id === null
      ? { merge_request_id: target.to_merge_request_id ?? 0 }
      : { issue_id: target.to_issue_id };
  await recordSystemNotes(tx, of, [{ action: 'cross_reference', body, internal: readers === 'reporters' }]);
};

/** Returns which readers of the target may all see what mentions it. Reporters of a project see all parts of it. */
const readersOfMention = async (tx: Tx, from: Tracked, target: Target): Promise<'all' | 'reporters' | 'nobody'> => {
  const { kind, project, row } = from;
  if (kind === 'issue' && row.confidential) return 'nobody';
  if (target.project_id === project.id) {
    const isSameKind = target[`to_${kind}_id`] !== null;
    return isSameKind || isOpenToReaders(from) ? 'all' : 'reporters';
  }
  if (project.visibility_level <= PRIVATE || !isOpenToReaders(from)) return 'nobody';
  if (project.visibility_level === PUBLIC) return 'all';
  // Anonymous callers and external users cannot see an internal project.
  const { visibility_level } = await tx.db
    .selectFrom('projects')
    .select('visibility_level')
    .where('id', '=', target.project_id)
    .executeTakeFirstOrThrow();
  return visibility_level === PUBLIC ? 'nobody' : 'reporters';
};

/** Returns true if everybody who can see the project can see its issues, or its merge requests. */
const isOpenToReaders = ({ kind, project }: Tracked): boolean => {
  const { visibility_level, issues_access_level, merge_requests_access_level, repository_access_level }: ProjectRow =
    project;
  if (kind === 'issue') return issues_access_level === 'enabled';
  // Guests of a private project see no code.
  const isOpen = merge_requests_access_level === 'enabled' && repository_access_level === 'enabled';
  return isOpen && visibility_level > PRIVATE;
};

/**
 * Returns the issues that merge requests mention, or close when they are merged, by the id of the merge request. Leaves
 * out those that the caller cannot see.
 */
export const issuesByMergeRequestIds = async (
  ctx: Context,
  mergeRequestIds: readonly number[],
  which: 'related' | 'closing',
): Promise<Map<number, IssueRow[]>> => {
  const { rows } = await sql<{ merge_request_id: number; id: number }>`
    select from_merge_request_id as merge_request_id, to_issue_id as id from cross_references
    where from_merge_request_id = any (${mergeRequestIds}::bigint[]) and to_issue_id is not null
      and (closes or ${which === 'related'})
    order by 1, 2`.execute(ctx.db);
  const visible = await issuesByIds(
    ctx,
    rows.map(({ id }) => id),
  );
  return new Map(
    [...Map.groupBy(rows, ({ merge_request_id }) => merge_request_id)].map(([id, named]) => [
      id,
      named.flatMap((each) => visible.get(each.id) ?? []),
    ]),
  );
};

/**
 * Returns the merge requests that mention the issues, or that close them when they are merged, by the id of the issue and
 * in order of their own id. Leaves out those that the caller cannot see.
 */
export const mergeRequestsByIssueIds = async (
  ctx: Context,
  issueIds: readonly number[],
  which: 'related' | 'closing',
): Promise<Map<number, MergeRequestRow[]>> => {
  const { rows } = await sql<{ issue_id: number; id: number }>`
    select to_issue_id as issue_id, from_merge_request_id as id from cross_references
    where to_issue_id = any (${issueIds}::bigint[]) and from_merge_request_id is not null
      and (closes or ${which === 'related'})
    order by 1, 2`.execute(ctx.db);
  const visible = await mergeRequestsByIds(
    ctx,
    rows.map(({ id }) => id),
  );
  return new Map(
    [...Map.groupBy(rows, ({ issue_id }) => issue_id)].map(([issueId, named]) => [
      issueId,
      named.flatMap(({ id }) => visible.get(id) ?? []),
    ]),
  );
};
