import { type RawBuilder, sql } from 'kysely';
import type { RunnerAccessLevel, RunnerType } from '#domains/runners/model.ts';
import { INSTANCE_RUNNERS_SERVE } from '#domains/runners/serving.ts';
import type { RunnerFacts } from '#domains/runners/tokens.ts';
import type { Tx } from '#platform/context.ts';
import { digestToken } from '#platform/secrets.ts';

/** A runner that finds more jobs than this taken by others has lost the race (reference: ci §4). */
const CANDIDATES = 45;

/** More running jobs of a project make no difference to its turn. */
const COUNTED = 500;

/** A runner that may take jobs. */
export interface Seeker {
  readonly id: number;
  readonly runner_type: RunnerType;
  readonly namespace_id: number | null;
  readonly project_id: number | null;
  readonly tags: readonly string[];
  readonly run_untagged: boolean;
  readonly access_level: RunnerAccessLevel;
}

/**
 * Reads the runners with these tokens that may take jobs now, by token. Cached facts may be stale, so this decides. Leaves
 * out runners that are paused or gone, and tokens that have expired.
 */
export const readSeekers = async (
  { db }: Tx,
  asking: readonly { readonly token: string; readonly facts: RunnerFacts }[],
): Promise<ReadonlyMap<string, Seeker>> => {
  const tokens = new Map(asking.map(({ token, facts }) => [token, facts.id]));
  const { rows } = await sql<Seeker & { readonly place: number }>`
    select given.place::integer as place, r.id, r.runner_type, r.namespace_id, r.project_id, r.tags, r.run_untagged,
      r.access_level
    from unnest(${[...tokens.values()]}::bigint[], ${[...tokens.keys()].map(digestToken)}::bytea[])
        with ordinality as given (id, digest, place)
      join runners r on r.id = given.id and r.digest = given.digest
    where not r.paused and (r.token_expires_at is null or r.token_expires_at > now())`.execute(db);
  const names = [...tokens.keys()];
  return new Map(rows.map(({ place, ...seeker }) => [names[place - 1] ?? '', seeker]));
};

/** Returns the same text for runners that may take the same jobs. */
export const kindOfSeeker = (seeker: Seeker): string => {
  const { id, runner_type, namespace_id, tags, run_untagged, access_level } = seeker;
  // Each project runner has projects of its own.
  const serves = runner_type === 'project_type' ? id : namespace_id;
  return JSON.stringify([runner_type, serves, tags.toSorted(), run_untagged, access_level]);
};

export interface Locked {
  readonly ids: readonly number[];
  /** Whether they got fewer because others are taking jobs that fit. */
  readonly lost: boolean;
}

/**
 * Finds up to `count` jobs for runners that may take the same jobs, and locks their rows. `taken` are jobs that this
 * transaction has locked for other runners.
 *
 * Runners of the instance serve the project with the fewest running jobs on such runners first, then the oldest job.
 *
 * The work grows with the projects that have pending jobs, and with the sets of tags in each, but not with the number of
 * jobs.
 */
export const lockJobs = async (
  tx: Tx,
  seeker: Seeker,
  count: number,
  taken: readonly number[] = [],
): Promise<Locked> => {
  const shared = await lockCandidates(tx, seeker, count, taken, true);
  // Some projects had fewer jobs than their share, so others may give more than theirs.
  const isShort = shared.ids.length < count && shared.isCut;
  const { ids, candidates } = isShort ? await lockCandidates(tx, seeker, count, taken, false) : shared;
  return { ids, lost: ids.length < count && candidates > ids.length };
};

interface Candidates {
  readonly ids: readonly number[];
  /** The number of jobs that fit, as far as they were read. */
  readonly candidates: number;
  /** Whether a project may have more jobs that fit than were read. */
  readonly isCut: boolean;
}

/**
 * If `sharing` is true, reads no more jobs of a project than it gives if every project has enough of them. Otherwise each
 * project may give all.
 */
const lockCandidates = async (
  tx: Tx,
  { id, runner_type, namespace_id, project_id, tags, run_untagged, access_level }: Seeker,
  count: number,
  taken: readonly number[],
  sharing: boolean,
): Promise<Candidates> => {
  const isShared = sharing && runner_type === 'instance_type';
  const wanted = sql`(${count} + ${sql.lit(CANDIDATES)})::bigint`;
  const { rows } = await sql<{ candidates: number; is_cut: boolean; id: number | null }>`
    with recursive runner as materialized (
      select ${id}::bigint as id, ${runner_type}::text as runner_type, ${namespace_id}::bigint as namespace_id,
        ${project_id}::bigint as project_id, ${tags}::text[] as tags, ${run_untagged}::boolean as run_untagged,
        ${access_level}::text as access_level
    ), queued as (
      ${runner_type === 'project_type' ? OF_PROJECT_RUNNER : ALL_QUEUED}
    ), served as materialized (
      select p.id, case when runner.runner_type = 'instance_type' and (select count(*) from queued) > 1 then (
        select count(*) from (
          select 1 from jobs running
          where running.project_id = p.id and running.status = 'running'
            and running.runner_id = any (array(select id from runners where runner_type = 'instance_type'))
          limit ${sql.lit(COUNTED)}) as counted
        ) else 0 end as running
      from runner cross join queued join projects p on p.id = queued.project_id
        join namespaces n on n.id = p.namespace_id
      where p.builds_access_level <> 'disabled' and p.repository_access_level <> 'disabled'
        and not p.archived and not p.pending_delete
        and case runner.runner_type
          when 'instance_type' then ${INSTANCE_RUNNERS_SERVE}
          when 'group_type' then p.group_runners_enabled and n.traversal_ids @> array[runner.namespace_id]
          else true end
    ), shares as materialized (
      select id, running, ${isShared ? sql`greatest(0, least(${wanted}, (${lastTurn(wanted)}) - running))` : wanted} as share
      from served
    ), candidates as materialized (
      select fitting.id, case when runner.runner_type = 'instance_type'
        then served.running + row_number() over (partition by served.id order by fitting.id) else 0 end as turn,
        served.id as project_id
      from runner cross join shares as served cross join lateral (
        with recursive kinds as (
          ${firstKind(sql`true`)}
          union all
          select next.* from kinds cross join lateral (
            ${firstKind(sql`(j.protected, ${TAGS_KEY}) > (kinds.protected, kinds.tags_key)`)}) as next
        )
        select job.id from kinds cross join lateral (
          select j.id from jobs j
          where j.project_id = served.id and j.status = 'pending' and j.kind = 'build'
            and j.protected = kinds.protected and ${TAGS_KEY} = kinds.tags_key and j.id <> all (${taken}::bigint[])
          order by j.id limit served.share
        ) as job
        where kinds.tags <@ runner.tags and (runner.run_untagged or kinds.tags <> '{}')
          and (runner.access_level = 'not_protected' or kinds.protected)
        order by job.id limit served.share
      ) as fitting
      order by turn, fitting.id limit ${wanted}
    ), locked as materialized (
      select j.id, candidates.turn from candidates join jobs j on j.id = candidates.id
      where j.status = 'pending' and j.tags <@ (select tags from runner)
      order by candidates.turn, j.id limit ${count} for update of j skip locked
    )
    select (select count(*) from candidates) as candidates, locked.id,
      exists (select from shares where share < ${wanted}
        and share = (select count(*) from candidates where project_id = shares.id)) as is_cut
    from (select) as one left join locked on true
    order by locked.turn, locked.id`.execute(tx.db);
  const [first] = rows;
  return {
    ids: rows.flatMap(({ id }) => id ?? []),
    candidates: first?.candidates ?? 0,
    isCut: first?.is_cut ?? false,
  };
};

/**
 * The turn by which the served projects give that many jobs together: each starts with its number of running jobs. The
 * projects that give any are those with the fewest, so it is the least mean over the first of them.
 */
const lastTurn = (wanted: RawBuilder<unknown>): RawBuilder<unknown> => sql`
        select ceil(min((${wanted} + running) / place))::bigint
        from (select sum(running) over fewest as running, row_number() over fewest as place
          from served window fewest as (order by served.running, served.id)) as sums`;

/** A short form of the tags for the index `jobs_queue_by_tags`. Tags that collide are told apart by the last step. */
const TAGS_KEY: RawBuilder<unknown> = sql`hash_array_extended(j.tags, 0)`;

/** The first pending job of a project that meets the condition, by protection and tags. */
const firstKind = (condition: RawBuilder<unknown>): RawBuilder<unknown> => sql`(
            select j.protected, j.tags, ${TAGS_KEY} as tags_key from jobs j
            where j.project_id = served.id and j.status = 'pending' and j.kind = 'build' and ${condition}
            order by j.protected, ${TAGS_KEY} limit 1)`;

/** The projects with pending jobs, found by skipping from one to the next in the index. */
const ALL_QUEUED: RawBuilder<unknown> = sql`
      (select project_id from jobs where status = 'pending' and kind = 'build' order by project_id limit 1)
      union all
      select (select j.project_id from jobs j
        where j.status = 'pending' and j.kind = 'build' and j.project_id > queued.project_id
        order by j.project_id limit 1)
      from queued where queued.project_id is not null`;

const OF_PROJECT_RUNNER: RawBuilder<unknown> = sql`
      select runner.project_id from runner where runner.project_id is not null
      union
      select rp.project_id from runner_projects rp join runner on runner.id = rp.runner_id`;
