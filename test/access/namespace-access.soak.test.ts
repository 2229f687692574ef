import fc from 'fast-check';
import { sql } from 'kysely';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { connectPorts } from '#app/ports.ts';
import { refreshAccess } from '#domains/access/commands.ts';
import { namespaceLevel } from '#domains/access/policy.ts';
import { createGroup, transferGroup } from '#domains/groups/commands.ts';
import { removeGroup as deleteGroup } from '#domains/groups/deletion.ts';
import { getGroup } from '#domains/groups/queries.ts';
import { shareGroup, unshareGroup } from '#domains/groups/shares.ts';
import { addMember, removeMember, updateMember } from '#domains/members/commands.ts';
import { groupSource } from '#domains/members/model.ts';
import { anonymous, type Context, systemActor } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { DomainError } from '#platform/errors.ts';
import { createTestDatabase, type TestDatabase } from '../support/database.ts';
import { createTestServices, type TestServices } from '../support/services.ts';

const USERS = 4;
const LEVELS = [10, 15, 20, 30, 40, 50] as const;
const PAST = '2020-01-01';
const FUTURE = '2999-01-01';

let database: TestDatabase;
let test: TestServices;
let ctx: Context;
let users: number[] = [];

beforeAll(async () => {
  database = await createTestDatabase();
  test = await createTestServices(database.url);
  connectPorts(test.services);
  ctx = createContextFactory(test.services)({ actor: systemActor });
  for (let i = 0; i < USERS; i++) {
    const { id } = await ctx.db
      .insertInto('users')
      .values({ username: `user${i}`, name: `User ${i}`, email: `user${i}@example.com` })
      .returning('id')
      .executeTakeFirstOrThrow();
    users = [...users, id];
  }
});

afterAll(async () => {
  await test[Symbol.asyncDispose]();
  await database.drop();
});

/** A naive model of the access rules over plain lists. */
class Model {
  readonly parents = new Map<number, number | null>();
  members: { group: number; user: number; level: number; expires: string | null }[] = [];
  shares: { group: number; with: number; level: number; expires: string | null }[] = [];

  chain(group: number): number[] {
    const parent = this.parents.get(group) ?? null;
    return parent === null ? [group] : [group, ...this.chain(parent)];
  }

  isBelow(group: number, ancestor: number): boolean {
    return this.chain(group).includes(ancestor);
  }

  ownLevel(user: number, group: number): number {
    const chain = this.chain(group);
    const found = this.members.filter(
      (each) => each.user === user && chain.includes(each.group) && each.expires !== PAST,
    );
    return Math.max(0, ...found.map((each) => each.level));
  }

  level(user: number, group: number): number {
    const chain = this.chain(group);
    const invited = this.shares
      .filter((each) => chain.includes(each.group) && each.expires !== PAST)
      .map((each) => Math.min(each.level, this.ownLevel(user, each.with)));
    return Math.max(this.ownLevel(user, group), ...invited);
  }
}

const pick = fc.nat(30);
const user = fc.nat(USERS - 1);
const level = fc.constantFrom(...LEVELS);
const expires = fc.constantFrom(null, null, FUTURE, PAST);

const operation = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant('create' as const), parent: fc.option(pick) }) },
  { weight: 5, arbitrary: fc.record({ do: fc.constant('join' as const), group: pick, user, level, expires }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('promote' as const), group: pick, user, level }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant('leave' as const), group: pick, user }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('share' as const), group: pick, with: pick, level, expires }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('unshare' as const), share: pick }) },
  { weight: 3, arbitrary: fc.record({ do: fc.constant('move' as const), group: pick, to: fc.option(pick) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant('delete' as const), group: pick }) },
);
type Operation = typeof operation extends fc.Arbitrary<infer T> ? T : never;

let count = 0;

/** Applies an operation to the hub and then to the model. A refused operation throws and changes neither. */
const apply = async (model: Model, given: Operation): Promise<void> => {
  const groups = [...model.parents.keys()];
  const at = (index: number) => groups[index % groups.length] ?? 0;
  if (given.do === 'create') {
    const parent = given.parent === null || groups.length === 0 ? null : at(given.parent);
    const path = `group${++count}`;
    const group = await createGroup(ctx, { name: path, path, parent: parent === null ? null : { id: parent } });
    model.parents.set(group.id, parent);
    return;
  }
  if (groups.length === 0) return;
  if (given.do === 'unshare') {
    const share = model.shares[given.share % model.shares.length];
    if (!share) return;
    await unshareGroup(ctx, { id: share.group }, { id: share.with });
    model.shares = model.shares.filter((each) => each !== share);
    return;
  }
  const group = at(given.group);
  const source = groupSource(await getGroup(ctx, { id: group }));
  if (given.do === 'delete') {
    await deleteGroup(ctx, group);
    const gone = new Set(groups.filter((each) => model.isBelow(each, group)));
    model.members = model.members.filter((each) => !gone.has(each.group));
    model.shares = model.shares.filter((each) => !gone.has(each.group) && !gone.has(each.with));
    for (const each of gone) model.parents.delete(each);
  } else if (given.do === 'move') {
    const to = given.to === null ? null : at(given.to);
    await transferGroup(ctx, { id: group }, to === null ? null : { id: to });
    model.parents.set(group, to);
  } else if (given.do === 'share') {
    const other = at(given.with);
    if (given.expires === PAST) {
      // The hub accepts no expiry date in the past, so the test inserts the row itself.
      if (group === other || model.shares.some((each) => each.group === group && each.with === other)) return;
      await ctx.transaction(async (tx) => {
        const values = { namespace_id: group, shared_with_id: other, access_level: given.level, expires_at: PAST };
        await tx.db.insertInto('namespace_shares').values(values).execute();
        await refreshAccess(tx, [group]);
      });
    } else {
      await shareGroup(ctx, { id: group }, { id: other }, { group_access: given.level, expires_at: given.expires });
    }
    model.shares.push({ group, with: other, level: given.level, expires: given.expires });
  } else {
    const user_id = users[given.user] ?? 0;
    const mine = (each: Model['members'][number]) => each.group === group && each.user === user_id;
    if (given.do === 'join') {
      const { level: access_level, expires: expires_at } = given;
      if (expires_at === PAST) {
        if (model.members.some(mine)) return;
        await ctx.transaction(async (tx) => {
          await tx.db
            .insertInto('members')
            .values({ namespace_id: group, user_id, access_level, expires_at })
            .execute();
          await refreshAccess(tx, [group], [user_id]);
        });
      } else {
        await addMember(ctx, source, { user_id, access_level, expires_at });
        model.members = model.members.filter((each) => !mine(each));
      }
      model.members.push({ group, user: user_id, level: access_level, expires: expires_at });
    } else if (given.do === 'promote') {
      await updateMember(ctx, source, user_id, { access_level: given.level });
      model.members = model.members.map((each) => (mine(each) ? { ...each, level: given.level } : each));
    } else {
      await removeMember(ctx, source, user_id);
      model.members = model.members.filter((each) => each.user !== user_id || !model.isBelow(each.group, group));
    }
  }
};

const levelsInHub = async (userId: number): Promise<Map<number, number>> => {
  const actor = { ...anonymous, userId };
  const rows = await ctx.db
    .selectFrom('namespaces')
    .select(['id', namespaceLevel(actor, sql.ref('namespaces.id')).as('level')])
    .where('kind', '=', 'group')
    .execute();
  return new Map(rows.map((row) => [row.id, row.level]));
};

describe('effective access', () => {
  it('matches a naive model of the rules after any sequence of changes to groups, members and shares', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(operation, { minLength: 5, maxLength: 60, size: 'max' }), async (operations) => {
        await ctx.db.deleteFrom('namespaces').where('kind', '=', 'group').execute();
        const model = new Model();
        for (const each of operations) {
          await apply(model, each).catch((error: unknown) => {
            if (!(error instanceof DomainError)) throw error;
          });
        }
        for (const id of users) {
          const expected = new Map([...model.parents.keys()].map((group) => [group, model.level(id, group)]));
          expect(await levelsInHub(id)).toEqual(expected);
        }
      }),
      { numRuns: 20 },
    );
  });

  it('leaves no rows behind after groups are deleted', async () => {
    await ctx.db.deleteFrom('namespaces').where('kind', '=', 'group').execute();
    expect(await ctx.db.selectFrom('namespace_access').selectAll().execute()).toEqual([]);
  });

  it('writes one row per namespace for a new member, however many projects there are', async () => {
    const root = await createGroup(ctx, { name: 'Large', path: 'large' });
    const below = await createGroup(ctx, { name: 'Below', path: 'below', parent: { id: root.id } });
    await sql`
      insert into projects (namespace_id, name, path, full_path, visibility_level, disk_path)
      select ${below.id}, 'p' || i, 'p' || i, 'large/below/p' || i, 0, 'disk/' || i from generate_series(1, 5000) i`.execute(
      ctx.db,
    );
    const [userId = 0] = users;
    const written = await ctx.transaction(async (tx) => {
      // The counters also include changes of earlier transactions that the session has not reported yet.
      const counters = async () => {
        const { rows } = await sql<{ relname: string; rows: number }>`
          select relname, n_tup_ins + n_tup_upd + n_tup_del as rows from pg_stat_xact_user_tables`.execute(tx.db);
        return new Map(rows.map((row) => [row.relname, row.rows]));
      };
      const before = await counters();
      await addMember(tx, groupSource(await getGroup(tx, { id: root.id })), { user_id: userId, access_level: 30 });
      const after = [...(await counters())].map(([name, rows]) => [name, rows - (before.get(name) ?? 0)] as const);
      return Object.fromEntries(after.filter(([, rows]) => rows > 0));
    });
    expect(written).toEqual({ members: 1, namespace_access: 2 });
    const { rows } = await sql<{ count: number }>`
      select count(*) as count from projects p join namespace_access a on a.namespace_id = p.namespace_id
      where a.user_id = ${userId}`.execute(ctx.db);
    expect(rows[0]?.count).toBe(5000);
  });

  it('stays correct when two group trees that are shared with each other change concurrently', async () => {
    const [a, b] = [
      await createGroup(ctx, { name: 'A', path: 'tree-a' }),
      await createGroup(ctx, { name: 'B', path: 'tree-b' }),
    ];
    const [, first = 0, second = 0] = users;
    await Promise.all([
      shareGroup(ctx, { id: a.id }, { id: b.id }, { group_access: 40 }),
      shareGroup(ctx, { id: b.id }, { id: a.id }, { group_access: 20 }),
      addMember(ctx, groupSource(a), { user_id: first, access_level: 50 }),
      addMember(ctx, groupSource(b), { user_id: second, access_level: 50 }),
    ]);
    expect([(await levelsInHub(first)).get(a.id), (await levelsInHub(first)).get(b.id)]).toEqual([50, 20]);
    expect([(await levelsInHub(second)).get(a.id), (await levelsInHub(second)).get(b.id)]).toEqual([40, 50]);
  });
});
