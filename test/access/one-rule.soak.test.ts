import fc from 'fast-check';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { refreshAccess } from '#domains/access/commands.ts';
import { projectLevel } from '#domains/access/policy.ts';
import { usersWithProjectLevel } from '#domains/access/queries.ts';
import { momentIsReadable } from '#domains/events/visibility.ts';
import { projectSource } from '#domains/members/model.ts';
import { ALL, listMembers } from '#domains/members/queries.ts';
import { DETAILS, ROW } from '#domains/projects/lists/parts.ts';
import { describeProjects } from '#domains/projects/payload.ts';
import { getProject, listProjects, projectsByIds } from '#domains/projects/queries.ts';
import { type Actor, anonymous, type Context, systemActor } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { createTestServices, type TestServices } from '../support/services.ts';

const LEVELS = [10, 15, 20, 30, 40, 50] as const;
const PAST = '2020-01-01';
const FUTURE = '2999-01-01';
const USERS = 3;

let database: TestDatabase;
let test: TestServices;
let ctx: Context;
const users: number[] = [];

const contextOf = (actor: Actor): Context => createContextFactory(test.services)({ actor });
const actorOf = (userId: number): Actor => ({ ...anonymous, userId });

const insertNamespace = async (values: {
  kind: 'group' | 'user';
  path: string;
  owner_id: number | null;
  parent: { readonly id: number; readonly traversal_ids: readonly number[] } | null;
}) => {
  const { path, parent, ...rest } = values;
  const { id } = await ctx.db
    .insertInto('namespaces')
    .values({
      ...rest,
      parent_id: parent?.id ?? null,
      name: path,
      path,
      full_path: path,
      full_name: path,
      visibility_level: 0,
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  const traversal_ids = [...(parent?.traversal_ids ?? []), id];
  await ctx.db.updateTable('namespaces').set({ traversal_ids }).where('id', '=', id).execute();
  return { id, traversal_ids };
};

beforeAll(async () => {
  database = await createTestDatabase();
  test = await createTestServices(database.url);
  ctx = contextOf(systemActor);
  for (let i = 0; i < USERS; i++) {
    const { id } = await ctx.db
      .insertInto('users')
      .values({ username: `user${i}`, name: `user${i}`, email: `user${i}@example.com` })
      .returning('id')
      .executeTakeFirstOrThrow();
    users.push(id);
  }
});

afterAll(async () => {
  await test[Symbol.asyncDispose]();
  await database.drop();
});

const pick = fc.nat(30);
const user = fc.nat(USERS - 1);
const expires_at = fc.constantFrom(null, null, FUTURE, PAST);
const world = fc.record({
  /** The parent of each group; null, and what is not an earlier group, for none. */
  groups: fc.array(fc.option(pick), { minLength: 2, maxLength: 5 }),
  /** The group of each project; null for the personal namespace of the first user. */
  projects: fc.array(fc.option(pick), { minLength: 1, maxLength: 3 }),
  members: fc.array(
    fc.record({ user, place: pick, isProject: fc.boolean(), level: fc.constantFrom(5, ...LEVELS), expires_at }),
    { minLength: 3, maxLength: 10 },
  ),
  shares: fc.array(
    fc.record({ place: pick, isProject: fc.boolean(), with: pick, level: fc.constantFrom(...LEVELS), expires_at }),
    { minLength: 1, maxLength: 5 },
  ),
});
type World = typeof world extends fc.Arbitrary<infer T> ? T : never;

interface Place {
  readonly id: number;
  /** Indexes of the groups that contain it, itself included. */
  readonly chain: readonly number[];
}

let count = 0;

/** Creates what the world describes, and returns a function that tells each user's role by a naive reading of it. */
const build = async ({ groups, projects, members, shares }: World) => {
  const { db } = ctx;
  await db.deleteFrom('projects').execute();
  await db.deleteFrom('namespaces').execute();
  const personal = await insertNamespace({ kind: 'user', path: `u${++count}`, owner_id: users[0] ?? 0, parent: null });
  const built: { id: number; traversal_ids: number[]; chain: number[] }[] = [];
  for (const [index, wanted] of groups.entries()) {
    const parent = wanted === null ? null : (built[wanted] ?? null);
    const made = await insertNamespace({ kind: 'group', path: `g${++count}`, owner_id: null, parent });
    built.push({ ...made, chain: [...(parent?.chain ?? []), index] });
  }
  const at = <T>(list: readonly T[], index: number): T => {
    const found = list[index % list.length];
    if (found === undefined) throw new Error('the list is empty');
    return found;
  };
  const madeProjects: (Place & { readonly isPersonal: boolean; readonly traversal_ids: readonly number[] })[] = [];
  for (const wanted of projects) {
    const group = wanted === null ? null : at(built, wanted);
    const path = `p${++count}`;
    const { id } = await db
      .insertInto('projects')
      .values({
        namespace_id: group?.id ?? personal.id,
        name: path,
        path,
        full_path: path,
        visibility_level: 0,
        disk_path: path,
      })
      .returning('id')
      .executeTakeFirstOrThrow();
    const traversal_ids = group?.traversal_ids ?? [personal.id];
    madeProjects.push({ id, chain: group?.chain ?? [], isPersonal: group === null, traversal_ids });
  }
  const kept: { user: number; project?: Place; group?: number; level: number; expires_at: string | null }[] = [];
  for (const { user: index, place, isProject, level, expires_at } of members) {
    const project = isProject ? at(madeProjects, place) : undefined;
    const group = isProject ? undefined : place % built.length;
    if (kept.some((each) => each.user === index && each.project === project && each.group === group)) continue;
    kept.push({ user: index, ...(project ? { project } : { group: group ?? 0 }), level, expires_at });
    await db
      .insertInto('members')
      .values({
        user_id: at(users, index),
        access_level: level,
        expires_at,
        project_id: project?.id ?? null,
        namespace_id: group === undefined ? null : at(built, group).id,
      })
      .execute();
  }
  const keptShares: { project?: Place; group?: number; with: number; level: number; expires_at: string | null }[] = [];
  for (const { place, isProject, with: invited, level, expires_at } of shares) {
    const shared_with_id = at(built, invited).id;
    const values = { shared_with_id, access_level: level, expires_at };
    const other = invited % built.length;
    if (isProject) {
      const project = at(madeProjects, place);
      if (keptShares.some((each) => each.project === project && each.with === other)) continue;
      await db
        .insertInto('project_shares')
        .values({ ...values, project_id: project.id })
        .execute();
      keptShares.push({ project, with: other, level, expires_at });
    } else {
      const group = place % built.length;
      if (group === other || keptShares.some((each) => each.group === group && each.with === other)) continue;
      await db
        .insertInto('namespace_shares')
        .values({ ...values, namespace_id: at(built, group).id })
        .execute();
      keptShares.push({ group, with: other, level, expires_at });
    }
  }
  await ctx.transaction((tx) => refreshAccess(tx, [personal.id, ...built.map(({ id }) => id)]));

  const isValid = (each: { readonly expires_at: string | null }) => each.expires_at !== PAST;
  const inGroups = (index: number, chain: readonly number[]): number =>
    Math.max(
      0,
      ...kept
        .filter((each) => each.user === index && isValid(each) && each.group !== undefined)
        .filter(({ group = -1, level }) => chain.includes(group) && level >= 10)
        .map(({ level }) => level),
    );
  const roleOf = (index: number, project: (typeof madeProjects)[number]): number => {
    const own = kept.filter((each) => each.user === index && each.project === project && isValid(each));
    const invitations = keptShares
      .filter(isValid)
      .filter((each) => each.project === project || (each.group !== undefined && project.chain.includes(each.group)))
      .map((each) => Math.min(each.level, inGroups(index, built[each.with]?.chain ?? [])));
    return Math.max(
      project.isPersonal && index === 0 ? 50 : 0,
      inGroups(index, project.chain),
      ...own.map(({ level }) => (level >= 10 ? level : 0)),
      ...invitations,
    );
  };
  return { projects: madeProjects, roleOf };
};

describe('the role on a project', () => {
  it('is the same in every place that asks for it, for any memberships and shares', async () => {
    await fc.assert(
      fc.asyncProperty(world, async (given) => {
        const { projects, roleOf } = await build(given);
        const ids = projects.map(({ id }) => id);
        const expected = users.map((_, index) => new Map(projects.map((each) => [each.id, roleOf(index, each)])));
        for (const [index, userId] of users.entries()) {
          const actor = actorOf(userId);
          const own = contextOf(actor);
          const roles = expected[index] ?? new Map<number, number>();
          const seen = new Map([...roles].filter(([, level]) => level > 0));

          const levels = await ctx.db
            .selectFrom('projects')
            .select(['id', projectLevel(actor).as('level')])
            .execute();
          expect(new Map(levels.map(({ id, level }) => [id, level]))).toEqual(roles);

          for (const parts of [ROW, DETAILS]) {
            const rows = await projectsByIds(own, ids, parts);
            expect(new Map([...rows].map(([id, { access_level }]) => [id, access_level]))).toEqual(seen);
          }
          for (const least of LEVELS) {
            const holding = [...roles].filter(([, level]) => level >= least).map(([id]) => id);
            const listed = await listProjects(own, { min_access_level: least }, ROW).rows({ limit: 10 });
            expect(listed.map(({ id }) => id).toSorted((a, b) => a - b)).toEqual(holding);
          }
          for (const { id, traversal_ids } of projects) {
            const readable = await Promise.all(
              LEVELS.map(async (least) => {
                const moment = JSON.stringify({
                  project_id: id,
                  namespace_ids: traversal_ids,
                  visibility_level: null,
                  min_access_level: least,
                  user_ids: [],
                  about_people: false,
                });
                const { rows } = await sql<{ readable: boolean }>`
                  select ${momentIsReadable(actor, sql`${moment}::jsonb`)} as readable`.execute(ctx.db);
                return rows[0]?.readable ? least : 0;
              }),
            );
            expect(Math.max(...readable)).toBe(roles.get(id));
          }
        }
        for (const { id } of projects) {
          const roles = users.map((userId, index) => [userId, expected[index]?.get(id) ?? 0] as const);
          for (const least of LEVELS) {
            const holders = await usersWithProjectLevel(ctx, id, users, least);
            expect(holders).toEqual(new Set(roles.filter(([, level]) => level >= least).map(([userId]) => userId)));
          }
          const members = await listMembers(ctx, projectSource(await getProject(ctx, { id })), {
            relations: ALL,
          }).rows({ limit: 10 });
          const listed = members.filter(({ access_level }) => access_level >= 10);
          expect(new Map(listed.map((each) => [each.user_id, each.access_level]))).toEqual(
            new Map(roles.filter(([, level]) => level > 0)),
          );
          const [described] = await ctx.transaction((tx) => describeProjects(tx, { projectIds: [id] }));
          expect(described?.payload.hook_only.owners.map(({ name }) => name)).toEqual(
            users.flatMap((_, index) => ((expected[index]?.get(id) ?? 0) >= 50 ? [`user${index}`] : [])),
          );
        }
      }),
      { numRuns: 8 },
    );
  });
});
