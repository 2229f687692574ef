import { z } from 'zod';
import { getGroup } from '#domains/groups/queries.ts';
import { getProject } from '#domains/projects/queries.ts';
import { findUserByUsername } from '#domains/users/queries.ts';
import type { Context } from '#platform/context.ts';
import { badParameters, DomainError, notFound } from '#platform/errors.ts';
import { readPage } from '#platform/paging.ts';
import { atLeastOneOf, boolean, commaList, date, exclusive, idOrPath, integer, oneOf, text } from '#rest/params.ts';
import { listRoute, type Route, route } from '#rest/route.ts';
import { MODIFIED, unmodifiedSince } from '#rest/unmodified.ts';
import { addMember, removeMember, updateMember } from './commands.ts';
import { listMemberships, MEMBERSHIP_SOURCES } from './memberships.ts';
import { groupSource, projectSource } from './model.ts';
import { ALL, getMember, listMembers, type MemberRelation } from './queries.ts';
import { memberRecord, membershipRecord, projectShareRecord, toMember, toMembers, toMembership } from './record.ts';
import { joiningRoutes } from './rest/joining.ts';
import { peopleRoutes } from './rest/people.ts';
import { FOR_ALL, type SourceKind, splitCommas } from './rest/source-kind.ts';
import { shareProject, unshareProject } from './shares.ts';

const MAX_USERS = 100;
const MAX_LENGTH = 30_000;

const filters = {
  query: text({ max: 255 }).optional(),
  user_ids: commaList(integer(), { max: 1_000 }).optional(),
  skip_users: commaList(integer(), { max: 1_000 }).optional(),
};

const outcomeRecord = z
  .object({ status: z.enum(['success', 'error']), message: z.record(z.string(), z.string()).optional() })
  .meta({ id: 'MembersAdded' });

/** The routes for groups and projects differ only in their place. */
const routesOf = (place: SourceKind): Route[] => {
  const list = (path: 'members' | 'members/all', relations: readonly MemberRelation[], summary: string) =>
    listRoute({
      path: `${place.path}/${path}`,
      tag: 'Members',
      summary,
      paging: 'offset',
      item: memberRecord,
      input: { id: idOrPath(), ...filters },
      run: async (ctx, { id, query, user_ids, skip_users }, page) => {
        const source = await place.source(ctx, id);
        const filter = { relations, query, userIds: user_ids, skipUserIds: skip_users };
        const found = await readPage(listMembers(ctx, source, filter), page);
        return { ...found, items: await toMembers(ctx, found.items) };
      },
    });
  const one = (path: 'members' | 'members/all', relations: readonly MemberRelation[], summary: string) =>
    route({
      method: 'GET',
      path: `${place.path}/${path}/:user_id`,
      tag: 'Members',
      summary,
      input: { id: idOrPath(), user_id: integer() },
      response: memberRecord,
      run: async (ctx, { id, user_id }) => {
        const source = await place.source(ctx, id);
        return toMember(ctx, await getMember(ctx, source, user_id, relations));
      },
    });
  return [
    list('members', ['direct'], `List the direct members of a ${place.noun}`),
    list('members/all', ALL, `List all members of a ${place.noun}, including inherited and invited ones`),
    one('members', ['direct'], `Get a direct member of a ${place.noun}`),
    one('members/all', ALL, `Get a member of a ${place.noun}, including inherited and invited ones`),
    route({
      method: 'POST',
      path: `${place.path}/members`,
      tag: 'Members',
      summary: `Add one or more members to a ${place.noun}`,
      description: 'With several ids, the response lists an error for each user who could not be added.',
      input: {
        id: idOrPath(),
        user_id: text({ max: MAX_LENGTH }).describe('One or more ids, separated by commas.').optional(),
        username: text({ max: MAX_LENGTH }).describe('One or more usernames, separated by commas.').optional(),
        access_level: integer(),
        expires_at: date().nullish(),
      },
      rules: [atLeastOneOf('user_id', 'username'), exclusive('user_id', 'username')],
      response: z.union([memberRecord, outcomeRecord]),
      run: async (ctx, { id, user_id, username, ...role }) => {
        const source = await place.source(ctx, id);
        const wanted: (number | string)[] = user_id === undefined ? splitCommas(username ?? '') : idsIn(user_id);
        const [only] = wanted;
        if (only === undefined || wanted.length > MAX_USERS) throw badParameters('user_id is invalid');
        if (wanted.length === 1) {
          return toMember(ctx, await addMember(ctx, source, { ...role, user_id: await idOf(ctx, only) }));
        }
        const message: Record<string, string> = {};
        for (const each of new Set(wanted)) {
          try {
            await addMember(ctx, source, { ...role, user_id: await idOf(ctx, each) });
          } catch (error) {
            if (!(error instanceof DomainError) || FOR_ALL.has(error.code)) throw error;
            message[String(each)] = error.message;
          }
        }
        return Object.keys(message).length > 0 ? { status: 'error' as const, message } : { status: 'success' as const };
      },
    }),
    route({
      method: 'PUT',
      path: `${place.path}/members/:user_id`,
      tag: 'Members',
      summary: `Update a member of a ${place.noun}`,
      input: { id: idOrPath(), user_id: integer(), access_level: integer(), expires_at: date().nullish() },
      response: memberRecord,
      run: async (ctx, { id, user_id, ...changes }) =>
        toMember(ctx, await updateMember(ctx, await place.source(ctx, id), user_id, changes)),
    }),
  ];
};

const removal = { id: idOrPath(), user_id: integer(), unassign_issuables: boolean().optional() };

/** Only groups have other groups and projects below them. */
const removalRoutes = [
  route({
    method: 'DELETE',
    path: '/groups/:id/members/:user_id',
    tag: 'Members',
    summary: 'Remove a member from a group',
    description: 'Also from the groups and projects below it, unless `skip_subresources` is true.',
    refusals: MODIFIED,
    input: { ...removal, skip_subresources: boolean().optional() },
    response: null,
    run: async (ctx, { id, user_id, skip_subresources, unassign_issuables }, http) =>
      removeMember(ctx, groupSource(await getGroup(ctx, id)), user_id, {
        skipSubresources: skip_subresources,
        unassignIssuables: unassign_issuables,
        unchangedSince: unmodifiedSince(http),
      }),
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/members/:user_id',
    tag: 'Members',
    summary: 'Remove a member from a project',
    refusals: MODIFIED,
    input: removal,
    response: null,
    run: async (ctx, { id, user_id, unassign_issuables }, http) =>
      removeMember(ctx, projectSource(await getProject(ctx, id)), user_id, {
        unassignIssuables: unassign_issuables,
        unchangedSince: unmodifiedSince(http),
      }),
  }),
];

const idsIn = (list: string): number[] =>
  splitCommas(list).map((each) => {
    if (!/^[1-9]\d{0,15}$/.test(each)) throw badParameters('user_id is invalid');
    return Number(each);
  });

const idOf = async (ctx: Context, user: number | string): Promise<number> => {
  if (typeof user === 'number') return user;
  const found = await findUserByUsername(ctx, user);
  if (!found) throw notFound('User');
  return found.id;
};

const places: readonly SourceKind[] = [
  {
    path: '/groups/:id',
    noun: 'group',
    source: async (ctx, id) => groupSource(await getGroup(ctx, id)),
  },
  {
    path: '/projects/:id',
    noun: 'project',
    source: async (ctx, id) => projectSource(await getProject(ctx, id)),
  },
];

export const routes: readonly Route[] = [
  ...places.flatMap(routesOf),
  ...removalRoutes,
  ...places.flatMap(joiningRoutes),
  ...peopleRoutes,
  route({
    method: 'POST',
    path: '/projects/:id/share',
    tag: 'Members',
    summary: 'Share a project with a group',
    input: { id: idOrPath(), group_id: integer({ min: 1 }), group_access: integer(), expires_at: date().nullish() },
    response: projectShareRecord,
    run: async (ctx, { id, group_id, ...share }) =>
      shareProject(ctx, await getProject(ctx, id), { id: group_id }, share),
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/share/:group_id',
    tag: 'Members',
    summary: 'Stop sharing a project with a group',
    input: { id: idOrPath(), group_id: integer({ min: 1 }) },
    response: null,
    run: async (ctx, { id, group_id }) => unshareProject(ctx, await getProject(ctx, id), { id: group_id }),
  }),
  listRoute({
    path: '/users/:id/memberships',
    tag: 'Members',
    summary: 'List the memberships of a user',
    description: 'Direct memberships only.',
    admin: true,
    scopes: ['api', 'read_api', 'read_user'],
    input: { id: integer({ min: 0 }), type: oneOf(MEMBERSHIP_SOURCES).optional() },
    paging: 'offset',
    item: membershipRecord,
    run: async (ctx, { id, type }, page) => {
      const { items, ...rest } = await readPage(await listMemberships(ctx, id, type), page);
      return { ...rest, items: items.map(toMembership) };
    },
  }),
];
