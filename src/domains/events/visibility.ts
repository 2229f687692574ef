import { type RawBuilder, sql } from 'kysely';
import { GUEST, PLANNER, PUBLIC } from '#domains/access/model.ts';
import { openFrom } from '#domains/access/policy.ts';
import { grantedOnProject, grantedRoles, NAMESPACE_GRANTS, NAMESPACE_ROLES } from '#domains/access/roles.ts';
import { canRead, type ProjectAbility } from '#domains/projects/policy.ts';
import type { Actor, Context } from '#platform/context.ts';
import { CompiledStatements, runCompiled, slot } from '#platform/db/compiled.ts';
import type { EventPart, EventRow } from '#platform/events.ts';

// A person may read an event if they may read its subject now, and could read it when the event happened (decision 21).
// Both checks use the roles that people hold today, because past roles are not recorded. "Now" looks at the subject's
// current place. "Then" looks at the place and the visibility that the event recorded.

/** The facts about an event that decide who may read it. */
export interface Moment {
  readonly project_id: number | null;
  /** The namespaces that contained the place, outermost first. */
  readonly namespace_ids: readonly number[];
  /** The visibility of the place; null means members only. */
  readonly visibility_level: number | null;
  /** The lowest role that could read it; null means everyone who could see the place. */
  readonly min_access_level: number | null;
  /** People the event names. They need no role beyond access to the place. */
  readonly user_ids: readonly number[];
  /** The event is about a membership. The people it names may read it even without access to the place. */
  readonly about_people: boolean;
  /** The ability that a reader needs in the project now; null means access to the place is enough. */
  readonly ability: ProjectAbility | null;
  /** The lowest role that a reader needs now, on top of the ability. */
  readonly least: number | null;
  /** An issue that a reader must be able to see now. */
  readonly issue_id: number | null;
  /** A second project that a reader must be able to see now, such as a fork. */
  readonly other_project_id: number | null;
}

/** The columns of a moment, for `jsonb_to_record`. */
const COLUMNS = sql.raw(`project_id bigint, namespace_ids bigint[], visibility_level int, min_access_level int,
  user_ids bigint[], about_people boolean, ability text, least int, issue_id bigint, other_project_id bigint`);

/** The abilities that an event's part may require. */
const ABILITIES = [
  'read_code',
  'read_error',
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

/** @throws Error if the part requires an ability that is not listed in `ABILITIES` */
export const momentOf = (event: Pick<EventRow, Placed | 'kind' | 'subject_type'>, part: EventPart | null): Moment => {
  const { project_id, namespace_ids, visibility_level, min_access_level, user_ids, subject_type } = event;
  const ability = part?.ability ?? null;
  if (ability !== null && !isAbility(ability))
    throw new Error(`${event.kind} requires ${ability}, which is not in ABILITIES`);
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

/** Viewers to whom the same places are open without membership. */
export interface ViewerClass {
  /** Places of at least this visibility are open to them (`openFrom`). */
  readonly open_from: number;
  /** Groups whose IP restriction excludes them; null for none. */
  readonly closed: readonly number[] | null;
  /** Digests of the labels whose projects an external service opens to them; null if no service decides. */
  readonly labels: readonly string[] | null;
  /** The signed-in users of the class. */
  readonly user_ids: readonly number[];
}

export interface Reading {
  /** Indexes of a class and of a moment. */
  readonly class: number;
  readonly moment: number;
  /** Null if the whole class may read the moment. */
  readonly user_id: number | null;
}

const statements = new CompiledStatements();

/** Returns which viewers may read which moments, in one statement. Administrators must be left out by the caller. */
export const readingsOf = (
  ctx: Context,
  classes: readonly ViewerClass[],
  moments: readonly Moment[],
): Promise<Reading[]> => {
  const isLabelled = classes.some(({ labels }) => labels !== null);
  const statement = statements.get(
    ctx,
    isLabelled ? 'readings by label' : 'readings',
    () => sql`
      select c.n as class, e.n as moment, r.user_id
      from jsonb_to_recordset(${slot('moments')}::jsonb) as e (n int, ${COLUMNS})
      cross join jsonb_to_recordset(${slot('classes')}::jsonb)
        as c (n int, open_from int, closed bigint[], ${isLabelled ? sql`labels text[], ` : sql``}first int, last int)
      ${readers(sql`(${slot('user_ids')}::bigint[])[c.first:c.last]`, isLabelled)}`,
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
    // An array literal, because the driver's own conversion is slow for thousands of ids.
    user_ids: `{${classes.flatMap(({ user_ids }) => user_ids).join()}}`,
  });
};

/** SQL: whether the actor may read the moment in a jsonb column. Only administrators may read a null moment. */
export const momentIsReadable = (actor: Actor, moment: RawBuilder<unknown>): RawBuilder<boolean> => {
  if (actor.isAdmin) return sql<boolean>`true`;
  const { open_from, closed, labels, user_ids } = classOf(actor);
  const [column, value] = labels === null ? [sql``, sql``] : [sql`, labels`, sql`, ${labels}::text[]`];
  return sql<boolean>`exists (
    select from jsonb_to_record(${moment}) as e (${COLUMNS})
    cross join (values (${open_from}::int, ${closed}::bigint[]${value})) as c (open_from, closed${column})
    ${readers(sql`${user_ids}::bigint[]`, labels !== null)} and ${moment} is not null)`;
};

/** Returns the class of one viewer, with only that viewer in it. */
export const classOf = (viewer: Actor): ViewerClass => ({
  open_from: openFrom(viewer),
  closed: viewer.closedGroups?.length ? viewer.closedGroups : null,
  labels: viewer.openLabels ?? null,
  user_ids: viewer.userId === null ? [] : [viewer.userId],
});

const GUEST_ROLE = sql.lit(GUEST);
const IS_CLOSED_NOW = sql<boolean>`(c.closed && n.traversal_ids) is true`;
const IS_CLOSED_THEN = sql<boolean>`(c.closed && e.namespace_ids) is true`;
/** An IP restriction makes members who are outside it equal to anonymous callers. */
const OPEN_NOW = sql<number>`(case when ${IS_CLOSED_NOW} then ${sql.lit(PUBLIC)} else c.open_from end)`;
const OPEN_THEN = sql<number>`(case when ${IS_CLOSED_THEN} then ${sql.lit(PUBLIC)} else c.open_from end)`;

/** The right that a reader needs: a row `r` of `CANDIDATES`, or nothing (`NOBODY`) for a whole class. */
interface Standing {
  /** The role at the place as it is now. */
  readonly level: RawBuilder<number>;
  /** The role in the namespaces that contained the place then. */
  readonly levelThen: RawBuilder<number>;
  /** The role in the other project. */
  readonly levelOther: RawBuilder<number>;
  /** Whether the event names them. */
  readonly isNamed: RawBuilder<boolean>;
  /** Whether they are the issue's author or an assignee now. */
  readonly isConcerned: RawBuilder<boolean>;
}

const NOBODY: Standing = {
  level: sql.lit(0),
  levelThen: sql.lit(0),
  levelOther: sql.lit(0),
  isNamed: sql.lit(false),
  isConcerned: sql.lit(false),
};

const CANDIDATE: Standing = {
  level: sql.ref('r.level'),
  levelThen: sql.ref('r.level_then'),
  levelOther: sql.ref('r.level_other'),
  isNamed: sql.ref('r.is_named'),
  isConcerned: sql.ref('r.is_concerned'),
};

/** SQL: whether a reader of that standing may read the moment. More standing never reads less. */
const isReadableBy = ({ level, levelThen, levelOther, isNamed, isConcerned }: Standing) => {
  const isForAll = sql<boolean>`(e.min_access_level is null or ${isNamed})`;
  const least = sql<number>`(case when ${isNamed} then ${GUEST_ROLE} else greatest(e.min_access_level, ${GUEST_ROLE}) end)`;
  const asking = { level, openFrom: OPEN_NOW };
  const abilities = ABILITIES.map((ability) => sql`when ${sql.lit(ability)} then ${canRead(ability, asking, 'p')}`);
  return sql<boolean>`(
    ((e.visibility_level >= ${OPEN_THEN} and ${isForAll}) is true or ${levelThen} >= ${least})
    and case
      when p.id is not null and e.ability is not null then case e.ability ${sql.join(abilities, sql` `)} else false end
      when (p.id is not null or n.is_place) and coalesce(p.visibility_level, n.visibility_level) >= ${OPEN_NOW} and ${isForAll} then true
      else ${level} >= ${least} end
    and ${level} >= coalesce(e.least, 0)
    -- A deleted issue may have been confidential when it was deleted.
    and (e.issue_id is null or i.confidential is false or ${isConcerned} or ${level} >= ${sql.lit(PLANNER)})
    and (e.other_project_id is null or (not o.hidden and not o.pending_delete) is true and (${levelOther} >= ${GUEST_ROLE}
      or o.visibility_level >= case when (c.closed && h.traversal_ids) is true then ${sql.lit(PUBLIC)} else c.open_from end)))`;
};

const USERS = sql`w.user_ids`;

/** Effective roles in a namespace, inherited ones included. */
const IN_NAMESPACE = (place: RawBuilder<unknown>) => grantedRoles([NAMESPACE_ROLES], { place, users: USERS });

/** Roles of the project's own members, and of members of groups that it is shared with. */
const IN_PROJECT = (place: RawBuilder<unknown>) => grantedOnProject({ place, users: USERS });

/** Roles held today in the namespaces that contained the place then. Only needed if it has moved since. */
const IN_FORMER = grantedRoles(Object.values(NAMESPACE_GRANTS), { places: sql`e.namespace_ids`, users: USERS });

/**
 * One row for each of the users `w.user_ids` who has any standing. All others may read only what their whole class may
 * read. If the place has moved, roles inherited from its new parents count for the present only.
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

/** The external service opens the projects as they are now. A deleted project is closed. */
const LABELS_ARE_OPEN = sql` and (c.labels is null
  or (e.project_id is null or md5(p.external_authorization_classification_label) = any (c.labels)) is true
    and (e.other_project_id is null or md5(o.external_authorization_classification_label) = any (c.labels)) is true)`;

/**
 * Joins the readers to a moment `e` and a class `c`: one row without a user if the whole class may read it, else one
 * row `r` for each reader. `p` is the project now. `n` is the namespace that contains it, or the nearest remaining one
 * if the place was deleted. The people an event names may read it if nothing remains.
 */
const readers = (userIds: RawBuilder<unknown>, isLabelled: boolean) => sql`
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
  cross join lateral (select (n.id is not null and (p.hidden or p.pending_delete) is not true${isLabelled ? LABELS_ARE_OPEN : sql``}) as is_there offset 0) t
  cross join lateral (select t.is_there and ${isReadableBy(NOBODY)} as is_open offset 0) v
  cross join lateral (select v.is_open, case when v.is_open then '{}' else ${userIds} end as user_ids offset 0) w
  left join lateral (${CANDIDATES}) r on true
  where (w.is_open or case
    when r.user_id is null then false
    when r.is_named and (n.id is null or e.about_people)${isLabelled ? sql` and e.project_id is null` : sql``} then true
    else t.is_there and ${isReadableBy(CANDIDATE)} end)`;
