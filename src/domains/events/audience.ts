import { sql } from 'kysely';
import { GUEST, PUBLIC } from '#domains/access/model.ts';
import { openFrom } from '#domains/access/policy.ts';
import { usersWithNamespaceLevel, usersWithProjectLevel } from '#domains/access/queries.ts';
import type { Actor, Context } from '#platform/context.ts';
import type { EventRow } from '#platform/events.ts';

/**
 * Which of the viewers (their indexes) may see the event, as things stand now: asked once for all subscribers of an
 * event. Administrators see everything; people the event names see it; others by what they may see of its project or
 * namespace, and by its least role where it has one.
 */
export const audienceOf = async (
  ctx: Context,
  viewers: readonly Actor[],
  event: EventRow,
): Promise<ReadonlySet<number>> => {
  const place = await findPlace(ctx, event);
  const undecided = new Set<number>();
  const seeing = new Set<number>();
  for (const [index, viewer] of viewers.entries()) {
    if (viewer.isAdmin || (viewer.userId !== null && event.user_ids.includes(viewer.userId))) seeing.add(index);
    else if (place && event.min_access_level === null && place.visibility >= openFrom(viewer)) seeing.add(index);
    else if (place && viewer.userId !== null) undecided.add(index);
  }
  if (!place || undecided.size === 0) return seeing;
  const userIds = [...undecided].flatMap((index) => viewers[index]?.userId ?? []);
  const least = Math.max(GUEST, event.min_access_level ?? GUEST);
  const members = await place.membersFrom(userIds, least);
  for (const index of undecided) if (members.has(viewers[index]?.userId ?? 0)) seeing.add(index);
  return seeing;
};

interface Place {
  /** Hidden things have a visibility that nobody reaches. */
  readonly visibility: number;
  membersFrom(userIds: readonly number[], least: number): Promise<ReadonlySet<number>>;
}

const NOBODY = -1;

/** The project or namespace the event concerns; that of a deleted project is its namespace, to members alone. */
const findPlace = async (ctx: Context, event: EventRow): Promise<Place | null> => {
  const { project_id: projectId } = event;
  const namespaceId = event.namespace_ids.at(-1);
  if (projectId !== null) {
    const project = await ctx.db
      .selectFrom('projects')
      .select(['visibility_level', sql<boolean>`hidden or pending_delete`.as('hidden')])
      .where('id', '=', projectId)
      .executeTakeFirst();
    if (project) {
      return {
        visibility: project.hidden ? NOBODY : project.visibility_level,
        membersFrom: (userIds, least) => usersWithProjectLevel(ctx, projectId, userIds, least),
      };
    }
  }
  if (namespaceId === undefined) return null;
  const namespace = await ctx.db
    .selectFrom('namespaces')
    .select('visibility_level')
    .where('id', '=', namespaceId)
    .executeTakeFirst();
  if (!namespace) return null;
  return {
    visibility: projectId === null ? Math.min(namespace.visibility_level, PUBLIC) : NOBODY,
    membersFrom: (userIds, least) => usersWithNamespaceLevel(ctx, namespaceId, userIds, least),
  };
};
