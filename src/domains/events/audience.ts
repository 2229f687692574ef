import { sql } from 'kysely';
import { GUEST } from '#domains/access/model.ts';
import { openFrom } from '#domains/access/policy.ts';
import { usersWithNamespaceLevel, usersWithProjectLevel } from '#domains/access/queries.ts';
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
  const place = await findPlace(ctx, event);
  const seeing = new Set<number>();
  /** By the role that they need. */
  const undecided = new Map<number, number[]>();
  for (const [index, viewer] of viewers.entries()) {
    const named = viewer.userId !== null && event.user_ids.includes(viewer.userId);
    if (viewer.isAdmin || (named && (!place || isAboutPeople(event)))) seeing.add(index);
    else if (place && (named || event.min_access_level === null) && place.visibility >= openFrom(viewer))
      seeing.add(index);
    else if (place && viewer.userId !== null) {
      const least = named ? GUEST : Math.max(GUEST, event.min_access_level ?? GUEST);
      const indexes = undecided.get(least);
      if (indexes) indexes.push(index);
      else undecided.set(least, [index]);
    }
  }
  for (const [least, indexes] of place ? undecided : []) {
    const userIds = indexes.flatMap((index) => viewers[index]?.userId ?? []);
    const members = await place?.membersFrom([...new Set(userIds)], least);
    for (const index of indexes) if (members?.has(viewers[index]?.userId ?? 0)) seeing.add(index);
  }
  return seeing;
};

/** Who was removed from a private project or group learns of that, and of nothing else there. */
const isAboutPeople = (event: EventRow): boolean => /Member$/.test(event.subject_type);

interface Place {
  /** What is hidden or gone has a visibility that nobody reaches. */
  readonly visibility: number;
  membersFrom(userIds: readonly number[], least: number): Promise<ReadonlySet<number>>;
}

const NOBODY = -1;

/**
 * The project or namespace the event concerns. That of a deleted one is the nearest that is left around it, to members
 * alone.
 */
const findPlace = async (ctx: Context, event: EventRow): Promise<Place | null> => {
  const { project_id: projectId, namespace_ids: namespaceIds } = event;
  if (projectId !== null) {
    const project = await ctx.db
      .selectFrom('projects')
      .select(['visibility_level', sql<boolean>`hidden or pending_delete`.as('hidden')])
      .where('id', '=', projectId)
      .executeTakeFirst();
    if (project) {
      return {
        visibility: project.hidden ? NOBODY : project.visibility_level,
        membersFrom: async (userIds, least) =>
          project.hidden ? new Set() : usersWithProjectLevel(ctx, projectId, userIds, least),
      };
    }
  }
  const namespace = await ctx.db
    .selectFrom('namespaces')
    .select(['id', 'visibility_level'])
    .where(sql<boolean>`id = any (${namespaceIds}::bigint[])`)
    .orderBy(sql`array_position(${namespaceIds}::bigint[], id)`, 'desc')
    .limit(1)
    .executeTakeFirst();
  if (!namespace) return null;
  const isWhole = projectId === null && namespace.id === namespaceIds.at(-1);
  return {
    visibility: isWhole ? namespace.visibility_level : NOBODY,
    membersFrom: (userIds, least) => usersWithNamespaceLevel(ctx, namespace.id, userIds, least),
  };
};
