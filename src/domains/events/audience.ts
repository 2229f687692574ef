import { sql } from 'kysely';
import { GUEST, PUBLIC } from '#domains/access/model.ts';
import { openFrom } from '#domains/access/policy.ts';
import {
  levelsOnNamespaces,
  levelsOnProjects,
  usersWithNamespaceLevel,
  usersWithProjectLevel,
} from '#domains/access/queries.ts';
import type { Actor, Context } from '#platform/context.ts';
import type { EventRow } from '#platform/events.ts';

/**
 * Which of the viewers (their indexes) may see the event, as things stand now: asked once for all subscribers of an
 * event. Administrators see everything; others by what they may see of its project or namespace, and by its least role
 * where it has one. The people whom the event names need no more than to know of the project or namespace, and nothing
 * where it is about themselves.
 */
export const audienceOf = async (
  ctx: Context,
  viewers: readonly Actor[],
  event: EventRow,
): Promise<ReadonlySet<number>> => {
  const [place = null] = await findPlaces(ctx, [event]);
  const seeing = new Set<number>();
  /** By the role that they need. */
  const undecided = new Map<number, number[]>();
  for (const [index, viewer] of viewers.entries()) {
    const least = leastRole(viewer, event, place);
    if (least === 0) seeing.add(index);
    else if (least !== null) {
      const indexes = undecided.get(least);
      if (indexes) indexes.push(index);
      else undecided.set(least, [index]);
    }
  }
  for (const [least, indexes] of place ? undecided : []) {
    const userIds = [...new Set(indexes.flatMap((index) => viewers[index]?.userId ?? []))];
    const members = place && (await membersFrom(ctx, place, userIds, least));
    for (const index of indexes) if (members?.has(viewers[index]?.userId ?? 0)) seeing.add(index);
  }
  return seeing;
};

/** Which of the events (their indexes) the viewer may see now, by the same rules: a page of history in a few statements. */
export const eventsSeenBy = async (
  ctx: Context,
  viewer: Actor,
  events: readonly EventRow[],
): Promise<ReadonlySet<number>> => {
  const places = await findPlaces(ctx, events);
  const needs = events.map((event, index) => leastRole(viewer, event, places[index] ?? null));
  const undecided = places.filter((place, index) => place && needs[index]);
  const idsOf = (kind: Place['kind']) => [
    ...new Set(undecided.flatMap((place) => (place?.kind === kind && !place.hidden ? place.id : []))),
  ];
  const levels = {
    project: await levelsOnProjects(ctx, viewer, idsOf('project')),
    namespace: await levelsOnNamespaces(ctx, viewer, idsOf('namespace')),
  };
  const seen = new Set<number>();
  for (const [index, least] of needs.entries()) {
    const place = places[index];
    const level = place ? (levels[place.kind].get(place.id) ?? 0) : 0;
    if (least !== null && level >= least) seen.add(index);
  }
  return seen;
};

/** The role that the viewer must hold at the event's place to see it: 0 when none is needed, null when none will do. */
const leastRole = (viewer: Actor, event: EventRow, place: Place | null): number | null => {
  const named = viewer.userId !== null && event.user_ids.includes(viewer.userId);
  if (viewer.isAdmin || (named && (!place || isAboutPeople(event)))) return 0;
  if (!place) return null;
  const isClosed = viewer.closedGroups?.some((id) => event.namespace_ids.includes(id)) ?? false;
  const least = isClosed ? PUBLIC : openFrom(viewer);
  if ((named || event.min_access_level === null) && place.visibility >= least) return 0;
  if (isClosed) return null;
  if (viewer.userId === null) return null;
  return named ? GUEST : Math.max(GUEST, event.min_access_level ?? GUEST);
};

/** Who was removed from a private project or group learns of that, and of nothing else there. */
const isAboutPeople = (event: EventRow): boolean => /Member$/.test(event.subject_type);

interface Place {
  readonly kind: 'project' | 'namespace';
  readonly id: number;
  /** What is hidden or gone has a visibility that nobody reaches. */
  readonly visibility: number;
  /** Its members see nothing of it either. */
  readonly hidden: boolean;
}

const NOBODY = -1;

const membersFrom = async (
  ctx: Context,
  { kind, id, hidden }: Place,
  userIds: readonly number[],
  least: number,
): Promise<ReadonlySet<number>> => {
  if (hidden) return new Set();
  return kind === 'project'
    ? usersWithProjectLevel(ctx, id, userIds, least)
    : usersWithNamespaceLevel(ctx, id, userIds, least);
};

/**
 * The project or namespace that each event concerns. That of a deleted one is the nearest that is left around it, to
 * members alone.
 */
const findPlaces = async (ctx: Context, events: readonly EventRow[]): Promise<readonly (Place | null)[]> => {
  const projectIds = [...new Set(events.flatMap((event) => event.project_id ?? []))];
  const projects = new Map<number, Place>();
  if (projectIds.length > 0) {
    const rows = await ctx.db
      .selectFrom('projects')
      .select(['id', 'visibility_level', sql<boolean>`hidden or pending_delete`.as('hidden')])
      .where(sql<boolean>`id = any (${projectIds}::bigint[])`)
      .execute();
    for (const { id, visibility_level, hidden } of rows) {
      projects.set(id, { kind: 'project', id, hidden, visibility: hidden ? NOBODY : visibility_level });
    }
  }
  const elsewhere = events.filter((event) => !projects.has(event.project_id ?? 0));
  const namespaceIds = [...new Set(elsewhere.flatMap((event) => event.namespace_ids))];
  const namespaces = new Map<number, number>();
  if (namespaceIds.length > 0) {
    const rows = await ctx.db
      .selectFrom('namespaces')
      .select(['id', 'visibility_level'])
      .where(sql<boolean>`id = any (${namespaceIds}::bigint[])`)
      .execute();
    for (const { id, visibility_level } of rows) namespaces.set(id, visibility_level);
  }
  return events.map((event) => {
    const project = projects.get(event.project_id ?? 0);
    if (project) return project;
    const id = event.namespace_ids.findLast((each) => namespaces.has(each));
    if (id === undefined) return null;
    const isWhole = event.project_id === null && id === event.namespace_ids.at(-1);
    return { kind: 'namespace', id, hidden: false, visibility: isWhole ? (namespaces.get(id) ?? NOBODY) : NOBODY };
  });
};
