import { type RawBuilder, sql } from 'kysely';
import { GUEST, OWNER, PLANNER, PUBLIC } from '#domains/access/model.ts';
import { openFrom } from '#domains/access/policy.ts';
import { canRead, type ProjectAbility } from '#domains/projects/policy.ts';
import type { Actor, Context } from '#platform/context.ts';
import { CompiledStatements, runCompiled, slot } from '#platform/db/compiled.ts';
import type { EventPart, EventRow } from '#platform/events.ts';

// Who may read an event: those who may read what it is about now, and could read it when it happened (decision 21). Both
// are judged by the roles that people hold today, because nobody keeps what they held then: "now" in the place where the
// subject lies today, "then" in the place where it lay, as visible as it was.

/** An event as its readers are judged by it. */
export interface Moment {
  readonly project_id: number | null;
  /** The namespaces it happened in, outermost first. */
  readonly namespace_ids: readonly number[];
  /** How visible the place was; null means to members alone. */
  readonly visibility_level: number | null;
  /** The least role that could read it; null means whoever could see the place. */
  readonly min_access_level: number | null;
  /** People it names: they could read it whatever their role. */
  readonly user_ids: readonly number[];
  /** It tells people of a membership of theirs: they read that whatever they may see of the place. */
  readonly about_people: boolean;
  /** What of its project a reader must be able to read now; null means the place itself. */
  readonly ability: ProjectAbility | null;
  /** The least role that a reader must hold now, where the ability alone does not say. */
  readonly least: number | null;
  /** The issue, and the other project, that a reader must be able to see now. */
  readonly issue_id: number | null;
  readonly other_project_id: number | null;
}

/** The columns of a moment, for `jsonb_to_record`. */
const COLUMNS = sql.raw(`project_id bigint, namespace_ids bigint[], visibility_level int, min_access_level int,
  user_ids bigint[], about_people boolean, ability text, least int, issue_id bigint, other_project_id bigint`);

/** What parts of events ask for. */
const ABILITIES = [
  'read_code',
  'read_issue',
  'read_label',
  'read_merge_request',
  'read_milestone',
  'read_pipeline',
  'read_project',
  'read_release',
] as const satisfies readonly ProjectAbility[];

const isAbility = (name: string): name is (typeof ABILITIES)[number] => ABILITIES.some((each) => each === name);

type Placed = 'project_id' | 'namespace_ids' | 'visibility_level' | 'min_access_level' | 'user_ids';

export const momentOf = (event: Pick<EventRow, Placed | 'kind' | 'subject_type'>, part: EventPart | null): Moment => {
  const { project_id, namespace_ids, visibility_level, min_access_level, user_ids, subject_type } = event;
  const ability = part?.ability ?? null;
  if (ability !== null && !isAbility(ability))
    throw new Error(`${event.kind} asks for ${ability}, which is not listed`);
  const { type, id } = part?.subject ?? {};
  return {
    project_id,
    namespace_ids,
    visibility_level,
    min_access_level,
    user_ids,
    about_people: /Member$/.test(subject_type),
    ability,
    least: part?.least ?? null,
    issue_id: type === 'Issue' ? (id ?? null) : null,
    other_project_id: type === 'Project' ? (id ?? null) : null,
  };
};

/** Viewers who differ in nothing but who they are. */
export interface ViewerClass {
  /** What has at least this visibility is open to them (`openFrom`). */
  readonly open_from: number;
  /** Groups that keep out the network they come from; null for none. */
  readonly closed: readonly number[] | null;
  /** The people among them who are signed in. */
  readonly user_ids: readonly number[];
}

export interface Reading {
  /** Indexes of a class and of a moment. */
  readonly class: number;
  readonly moment: number;
  /** Null: the whole class may read it. */
  readonly user_id: number | null;
}

const statements = new CompiledStatements();

/** Who of the viewers may read which of the moments. Administrators are not to be asked about. */
export const readingsOf = (
  ctx: Context,
  classes: readonly ViewerClass[],
  moments: readonly Moment[],
): Promise<Reading[]> => {
  const statement = statements.get(
    ctx,
    'readings',
    () => sql`
      select c.n as class, e.n as moment, r.user_id
      from jsonb_to_recordset(${slot('moments')}::jsonb) as e (n int, ${COLUMNS})
      cross join jsonb_to_recordset(${slot('classes')}::jsonb)
        as c (n int, open_from int, closed bigint[], first int, last int)
      ${readers(sql`(${slot('user_ids')}::bigint[])[c.first:c.last]`)}`,
  );
  let last = 0;
  const bounds = classes.map(({ user_ids, ...each }, n) => {
    const first = last + 1;
    last += user_ids.length;
    return { n, ...each, first, last };
  });
  return runCompiled<Reading>(ctx, statement, {
    moments: JSON.stringify(moments.map((moment, n) => ({ n, ...moment }))),
    classes: JSON.stringify(bounds),
    // As Postgres writes arrays: of thousands of ids the driver would make the same one by one.
    user_ids: `{${classes.flatMap(({ user_ids }) => user_ids).join()}}`,
  });
};

/** Whether the actor may read the moment kept in the column as JSON: one that is not known administrators alone. */
export const momentIsReadable = (actor: Actor, moment: RawBuilder<unknown>): RawBuilder<boolean> => {
  if (actor.isAdmin) return sql<boolean>`true`;
  const { open_from, closed, user_ids } = classOf(actor);
  return sql<boolean>`exists (
    select from jsonb_to_record(${moment}) as e (${COLUMNS})
    cross join (values (${open_from}::int, ${closed}::bigint[])) as c (open_from, closed)
    ${readers(sql`${user_ids}::bigint[]`)} and ${moment} is not null)`;
};

/** The class of a viewer, with nobody else in it. */
export const classOf = (viewer: Actor): ViewerClass => ({
  open_from: openFrom(viewer),
  closed: viewer.closedGroups?.length ? viewer.closedGroups : null,
  user_ids: viewer.userId === null ? [] : [viewer.userId],
});

const GUEST_ROLE = sql.lit(GUEST);
const IS_CLOSED_NOW = sql<boolean>`(c.closed && n.traversal_ids) is true`;
const IS_CLOSED_THEN = sql<boolean>`(c.closed && e.namespace_ids) is true`;
/** From networks that a group keeps out, all in it is as it is to strangers. */
const OPEN_NOW = sql<number>`(case when ${IS_CLOSED_NOW} then ${sql.lit(PUBLIC)} else c.open_from end)`;
const OPEN_THEN = sql<number>`(case when ${IS_CLOSED_THEN} then ${sql.lit(PUBLIC)} else c.open_from end)`;

/** What speaks for somebody: the row `r` of `CANDIDATES`, or nothing for a class as a whole. */
interface Standing {
  readonly userId: RawBuilder<number | null>;
  /** The role that they hold at the place, and the one that they hold in what was around it. */
  readonly level: RawBuilder<number>;
  readonly levelThen: RawBuilder<number>;
  /** The role that they hold in the other project. */
  readonly levelOther: RawBuilder<number>;
  /** The event names them. */
  readonly isNamed: RawBuilder<boolean>;
  /** The issue is theirs now: they wrote it or are assigned. */
  readonly isConcerned: RawBuilder<boolean>;
}

const NOBODY: Standing = {
  userId: sql.lit(null),
  level: sql.lit(0),
  levelThen: sql.lit(0),
  levelOther: sql.lit(0),
  isNamed: sql.lit(false),
  isConcerned: sql.lit(false),
};

const CANDIDATE: Standing = {
  userId: sql.ref('r.user_id'),
  level: sql.ref('r.level'),
  levelThen: sql.ref('r.level_then'),
  levelOther: sql.ref('r.level_other'),
  isNamed: sql.ref('r.is_named'),
  isConcerned: sql.ref('r.is_concerned'),
};

/** Whether somebody of that standing may read the moment, whose place is there. Nobody reads less for a higher standing. */
const isReadableBy = ({ userId, level, levelThen, levelOther, isNamed, isConcerned }: Standing) => {
  const isForAll = sql<boolean>`(e.min_access_level is null or ${isNamed})`;
  const least = sql<number>`(case when ${isNamed} then ${GUEST_ROLE} else greatest(e.min_access_level, ${GUEST_ROLE}) end)`;
  const asking = { level, openFrom: OPEN_NOW, isSignedIn: sql<boolean>`${userId} is not null` };
  const abilities = ABILITIES.map((ability) => sql`when ${sql.lit(ability)} then ${canRead(ability, asking, 'p')}`);
  return sql<boolean>`(
    ((e.visibility_level >= ${OPEN_THEN} and ${isForAll}) is true or ${levelThen} >= ${least})
    and case
      when p.id is not null and e.ability is not null then case e.ability ${sql.join(abilities, sql` `)} else false end
      when (p.id is not null or n.is_place) and coalesce(p.visibility_level, n.visibility_level) >= ${OPEN_NOW} and ${isForAll} then true
      else ${level} >= ${least} end
    and ${level} >= coalesce(e.least, 0)
    -- An issue that is gone may have been confidential at the end.
    and (e.issue_id is null or i.confidential is false or ${isConcerned} or ${level} >= ${sql.lit(PLANNER)})
    and (e.other_project_id is null or (not o.hidden and not o.pending_delete) is true and (${levelOther} >= ${GUEST_ROLE}
      or o.visibility_level >= case when (c.closed && h.traversal_ids) is true then ${sql.lit(PUBLIC)} else c.open_from end)))`;
};

const isUnexpired = (alias: string) => sql.raw(`(${alias}.expires_at is null or ${alias}.expires_at > current_date)`);

/** Roles in namespaces, those in all above them included, by the day. */
const IN_NAMESPACE = (id: RawBuilder<unknown>) => sql`
  select a.user_id, a.access_level from namespace_access a
  where a.namespace_id = ${id} and a.user_id = any (w.user_ids) and a.expires_at > current_date`;

/** Roles of members of the project, and of groups that it is shared with. */
const IN_PROJECT = (id: RawBuilder<unknown>) => sql`
  select m.user_id, m.access_level from members m
  where m.project_id = ${id} and m.user_id = any (w.user_ids) and m.access_level >= ${GUEST_ROLE} and ${isUnexpired('m')}
  union all
  select a.user_id, least(s.access_level, a.access_level) from project_shares s
  join namespace_access a on a.namespace_id = s.shared_with_id and a.user_id = any (w.user_ids) and not a.via_share
  where s.project_id = ${id} and a.expires_at > current_date and ${isUnexpired('s')}`;

/** Roles held today in the namespaces that were around it then, where those are others by now. */
const IN_FORMER = sql`
  select m.user_id, m.access_level from members m
  where m.namespace_id = any (e.namespace_ids) and m.user_id = any (w.user_ids) and m.access_level >= ${GUEST_ROLE}
    and ${isUnexpired('m')}
  union all
  select a.user_id, least(s.access_level, a.access_level) from namespace_shares s
  join namespace_access a on a.namespace_id = s.shared_with_id and a.user_id = any (w.user_ids) and not a.via_share
  where s.namespace_id = any (e.namespace_ids) and a.expires_at > current_date and ${isUnexpired('s')}
  union all
  select u.owner_id, ${sql.lit(OWNER)} from namespaces u
  where u.id = any (e.namespace_ids) and u.kind = 'user' and u.owner_id = any (w.user_ids)`;

/**
 * Of the people asked about (`w.user_ids`) those who have some standing, a row each: none of the others reads what the class as a whole does not.
 * Where the place was moved since, roles from its new surroundings count for the present alone.
 */
const CANDIDATES = sql`
  select f.user_id, max(f.now) as level, max(f.past) as level_then, max(f.other) as level_other,
    bool_or(f.is_named) as is_named, bool_or(f.is_concerned) as is_concerned
  from (
    select held.user_id, case when ${IS_CLOSED_NOW} then 0 else held.access_level end as now,
      case when ${IS_CLOSED_THEN} or n.is_moved then 0 else held.access_level end as past,
      0 as other, false as is_named, false as is_concerned
    from (${IN_NAMESPACE(sql.ref('n.id'))}) held
    union all
    select held.user_id, case when ${IS_CLOSED_NOW} then 0 else held.access_level end,
      case when ${IS_CLOSED_THEN} then 0 else held.access_level end, 0, false, false
    from (${IN_PROJECT(sql.ref('p.id'))}) held
    union all
    select held.user_id, 0, held.access_level, 0, false, false
    from (${IN_FORMER}) held where n.is_moved and not ${IS_CLOSED_THEN}
    union all
    select held.user_id, 0, 0, held.access_level, false, false
    from (${IN_NAMESPACE(sql.ref('h.id'))} union all ${IN_PROJECT(sql.ref('o.id'))}) held
    where e.other_project_id is not null and not (c.closed && h.traversal_ids) is true
    union all
    select id, 0, 0, 0, true, false from unnest(e.user_ids) id where id = any (w.user_ids)
    union all
    select i.author_id, 0, 0, 0, false, true where i.author_id = any (w.user_ids)
    union all
    select a.user_id, 0, 0, 0, false, true from issue_assignees a where a.issue_id = e.issue_id and a.user_id = any (w.user_ids)
  ) f group by f.user_id`;

/**
 * Joins to the moment `e` and the class `c` those who may read it: one row without a user where all of the class may, else
 * one for each person (`r`). `p` is the project as it is now, and `n` the namespace that holds it, or the nearest that is left
 * around what is gone. Those whom an event names read it where nothing is left, as they do what is about themselves.
 */
const readers = (userIds: RawBuilder<unknown>) => sql`
  left join projects p on p.id = e.project_id
  left join lateral (
    select s.id, s.visibility_level, s.traversal_ids, s.traversal_ids <> e.namespace_ids as is_moved,
      e.project_id is null and s.id = e.namespace_ids[cardinality(e.namespace_ids)] as is_place
    from namespaces s
    where s.id = any (case when p.id is null then e.namespace_ids else array[p.namespace_id] end)
    order by array_position(e.namespace_ids, s.id) desc nulls last limit 1
  ) n on true
  left join issues i on i.id = e.issue_id
  left join projects o on o.id = e.other_project_id
  left join namespaces h on h.id = o.namespace_id
  cross join lateral (select (n.id is not null and (p.hidden or p.pending_delete) is not true) as is_there offset 0) t
  cross join lateral (select t.is_there and ${isReadableBy(NOBODY)} as is_open offset 0) v
  cross join lateral (select v.is_open, case when v.is_open then '{}' else ${userIds} end as user_ids offset 0) w
  left join lateral (${CANDIDATES}) r on true
  where (w.is_open or case
    when r.user_id is null then false
    when r.is_named and (n.id is null or e.about_people) then true
    else t.is_there and ${isReadableBy(CANDIDATE)} end)`;
