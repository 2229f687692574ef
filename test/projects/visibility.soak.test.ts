import fc from 'fast-check';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';

// Tests who sees which projects on random forests of groups with shares, roles and visibilities. A model repeats the
// rules over plain lists. Every list and every single read has to agree with the model.

const RUNS = Number(process.env.VISIBILITY_RUNS ?? 5);
const PAST = '2020-01-01';
const FUTURE = '2999-01-01';
/** The number of users. The last one is external. */
const PEOPLE = 4;

const app = useApp();

const index = fc.nat(40);
const person = fc.nat(PEOPLE - 1);
const level = fc.constantFrom(5, 10, 15, 20, 30, 40, 50);
const sharedLevel = fc.constantFrom(10, 20, 30, 40, 50);
const expires = fc.constantFrom(null, null, null, FUTURE, PAST);
const visibility = fc.constantFrom(0, 0, 10, 20);

/** Indices are taken modulo the number of elements. */
const forest = fc.record({
  groups: fc.array(fc.record({ parent: fc.option(index), visibility }), { minLength: 1, maxLength: 9 }),
  projects: fc.array(
    fc.record({
      /** Null means the personal namespace of `owner`. */
      group: fc.option(index, { freq: 6 }),
      owner: person,
      visibility,
      hidden: fc.nat(12).map((n) => n === 0),
      pending_delete: fc.nat(12).map((n) => n === 0),
      archived: fc.boolean(),
      stars: fc.nat(2),
      hour: fc.nat(3),
    }),
    { minLength: 1, maxLength: 10 },
  ),
  groupMembers: fc.array(fc.record({ group: index, user: person, level, expires }), { maxLength: 8 }),
  projectMembers: fc.array(fc.record({ project: index, user: person, level, expires }), { maxLength: 5 }),
  groupShares: fc.array(fc.record({ group: index, with: index, level: sharedLevel, expires }), { maxLength: 5 }),
  projectShares: fc.array(fc.record({ project: index, with: index, level: sharedLevel, expires }), { maxLength: 5 }),
});
type Forest = typeof forest extends fc.Arbitrary<infer T> ? T : never;

interface Membership {
  readonly at: number;
  readonly user: number;
  readonly level: number;
  readonly expires: string | null;
}
interface Share {
  readonly at: number;
  readonly with: number;
  readonly level: number;
  readonly expires: string | null;
}
interface Project {
  readonly id: number;
  readonly full_path: string;
  /** The id of a group, or null. */
  readonly group: number | null;
  readonly owner: number | null;
  readonly visibility: number;
  readonly hidden: boolean;
  readonly pending_delete: boolean;
  readonly archived: boolean;
}

/** The rules over plain lists. Users are ids, and null is the anonymous caller. */
class Model {
  readonly parents = new Map<number, number | null>();
  readonly groupVisibility = new Map<number, number>();
  readonly groupPaths = new Map<number, string>();
  readonly projects: Project[] = [];
  readonly groupMembers: Membership[] = [];
  readonly projectMembers: Membership[] = [];
  readonly groupShares: Share[] = [];
  readonly projectShares: Share[] = [];

  chain(group: number): number[] {
    const parent = this.parents.get(group) ?? null;
    return parent === null ? [group] : [group, ...this.chain(parent)];
  }

  /** Returns the level by membership of the group or a parent group. */
  ownLevel(user: number, group: number): number {
    const chain = this.chain(group);
    return highest(this.groupMembers.filter((each) => each.user === user && chain.includes(each.at)));
  }

  groupLevel(user: number, group: number): number {
    const chain = this.chain(group);
    return Math.max(this.ownLevel(user, group), ...this.#invited(user, this.groupShares, chain));
  }

  projectLevel(user: number, project: Project): number {
    if (project.owner === user) return 50;
    const members = this.projectMembers.filter((each) => each.user === user && each.at === project.id);
    const through = project.group === null ? 0 : this.groupLevel(user, project.group);
    return Math.max(highest(members), through, ...this.#invited(user, this.projectShares, [project.id]));
  }

  #invited(user: number, shares: readonly Share[], at: readonly number[]): number[] {
    return shares
      .filter((share) => at.includes(share.at) && share.expires !== PAST)
      .map((share) => Math.min(share.level, this.ownLevel(user, share.with)));
  }

  isOpen(who: Who, visibility: number): boolean {
    return visibility === 20 || (visibility === 10 && who.id !== null && !who.external);
  }

  sees(who: Who, project: Project): boolean {
    if (who.admin) return true;
    if (project.hidden || project.pending_delete) return false;
    return this.isOpen(who, project.visibility) || (who.id !== null && this.projectLevel(who.id, project) >= 10);
  }

  /** Lists omit hidden projects and those being deleted, even for administrators. */
  lists(who: Who, project: Project): boolean {
    return this.sees(who, project) && !project.hidden && !project.pending_delete;
  }

  seesGroup(who: Who, group: number): boolean {
    const { id } = who;
    if (who.admin || this.isOpen(who, this.groupVisibility.get(group) ?? 0)) return true;
    if (id === null) return false;
    const groups = [...this.parents.keys()].filter((each) => this.groupLevel(id, each) >= 10);
    const inProjects = this.projects.filter((each) => {
      const members = this.projectMembers.filter((m) => m.user === id && m.at === each.id);
      return Math.max(highest(members), ...this.#invited(id, this.projectShares, [each.id])) >= 10;
    });
    const around = [...groups, ...inProjects.flatMap((each) => each.group ?? [])];
    return around.some((each) => this.chain(each).includes(group));
  }
}

const highest = (memberships: readonly Membership[]): number =>
  Math.max(0, ...memberships.filter((m) => m.level >= 10 && m.expires !== PAST).map((m) => m.level));

interface Who {
  readonly name: string;
  readonly client: Client;
  readonly id: number | null;
  readonly admin: boolean;
  readonly external: boolean;
}

let people: readonly TestUser[] | null = null;
let count = 0;

const everybody = async (): Promise<readonly Who[]> => {
  people ??= await Promise.all(
    Array.from({ length: PEOPLE }, (_, at) => app().make.user({ external: at === PEOPLE - 1 })),
  );
  const users = people.map((user, at) => ({
    name: `user ${at}`,
    client: app().as(user),
    id: user.id,
    admin: false,
    external: at === PEOPLE - 1,
  }));
  const root = { name: 'root', client: app().as(app().root), id: app().root.id, admin: true, external: false };
  const nobody = { name: 'nobody', client: app().anonymous, id: null, admin: false, external: false };
  return [...users, root, nobody];
};

/** Replaces the forest in the hub with this one, and builds its model. */
const plant = async (given: Forest): Promise<Model> => {
  await everybody();
  const { db } = app().context();
  const model = new Model();
  const userAt = (at: number) => people?.[at]?.id ?? 0;
  await sql`delete from projects`.execute(db);
  await sql`delete from namespaces where kind = 'group'`.execute(db);
  const groups: { id: number; full_path: string; traversal_ids: number[] }[] = [];
  for (const [at, { parent, visibility }] of given.groups.entries()) {
    const above = parent === null || at === 0 ? null : groups[parent % at];
    const path = `forest${++count}`;
    const full_path = above ? `${above.full_path}/${path}` : path;
    const { rows } = await sql<{ id: number }>`
      insert into namespaces (kind, parent_id, name, path, full_path, full_name, visibility_level)
      values ('group', ${above?.id ?? null}, ${path}, ${path}, ${full_path}, ${path}, ${visibility}) returning id`.execute(
      db,
    );
    const id = rows[0]?.id ?? 0;
    const traversal_ids = [...(above?.traversal_ids ?? []), id];
    await sql`update namespaces set traversal_ids = ${traversal_ids}::bigint[] where id = ${id}`.execute(db);
    groups.push({ id, full_path, traversal_ids });
    model.parents.set(id, above?.id ?? null);
    model.groupVisibility.set(id, visibility);
    model.groupPaths.set(id, full_path);
  }
  const groupAt = (at: number) => groups[at % groups.length] ?? { id: 0, full_path: '' };
  for (const { group, owner, stars, hour, ...rest } of given.projects) {
    const home = group === null ? null : groupAt(group);
    const path = `tree${++count}`;
    const { rows } = await sql<{ id: number; full_path: string }>`
      insert into projects (namespace_id, name, path, full_path, disk_path, visibility_level, hidden, pending_delete,
        archived, star_count, created_at, last_activity_at, updated_at)
      select n.id, ${path}, ${path}, n.full_path || '/' || ${path}::text, ${`@forest/${path}`}, ${rest.visibility}, ${rest.hidden},
        ${rest.pending_delete}, ${rest.archived}, ${stars}, at, at, at
      from namespaces n, (select '2024-01-01'::timestamptz + make_interval(hours => ${hour}) as at) given
      where ${home ? sql`n.id = ${home.id}` : sql`n.kind = 'user' and n.owner_id = ${userAt(owner)}`}
      returning id, full_path`.execute(db);
    const [row] = rows;
    if (!row) throw new Error('there is no place for the project');
    model.projects.push({ ...row, ...rest, group: home?.id ?? null, owner: home ? null : userAt(owner) });
  }
  const projectAt = (at: number) => model.projects[at % model.projects.length]?.id ?? 0;
  const once = new Set<string>();
  const isNew = (...key: readonly (string | number)[]) => !once.has(key.join()) && once.add(key.join());
  for (const { group, user, level, expires } of given.groupMembers) {
    const one = { at: groupAt(group).id, user: userAt(user), level, expires };
    if (!isNew('gm', one.at, one.user)) continue;
    model.groupMembers.push(one);
    await sql`insert into members (namespace_id, user_id, access_level, expires_at)
      values (${one.at}, ${one.user}, ${level}, ${expires}::date)`.execute(db);
  }
  for (const { project, user, level, expires } of given.projectMembers) {
    const one = { at: projectAt(project), user: userAt(user), level, expires };
    if (!isNew('pm', one.at, one.user)) continue;
    model.projectMembers.push(one);
    await sql`insert into members (project_id, user_id, access_level, expires_at)
      values (${one.at}, ${one.user}, ${level}, ${expires}::date)`.execute(db);
  }
  for (const { group, with: guest, level, expires } of given.groupShares) {
    const one = { at: groupAt(group).id, with: groupAt(guest).id, level, expires };
    if (one.at === one.with || !isNew('gs', one.at, one.with)) continue;
    model.groupShares.push(one);
    await sql`insert into namespace_shares (namespace_id, shared_with_id, access_level, expires_at)
      values (${one.at}, ${one.with}, ${level}, ${expires}::date)`.execute(db);
  }
  for (const { project, with: guest, level, expires } of given.projectShares) {
    const one = { at: projectAt(project), with: groupAt(guest).id, level, expires };
    if (!isNew('ps', one.at, one.with)) continue;
    model.projectShares.push(one);
    await sql`insert into project_shares (project_id, shared_with_id, access_level, expires_at)
      values (${one.at}, ${one.with}, ${level}, ${expires}::date)`.execute(db);
  }
  await sql`select refresh_namespace_access((select array_agg(id) from namespaces), null)`.execute(db);
  return model;
};

const sorted = (ids: readonly number[]): number[] => ids.toSorted((a, b) => a - b);

/** Returns all pages of a list, following `Link` headers. */
const walk = async (
  { client }: Who,
  path: string,
): Promise<{ readonly ids: number[]; readonly total: number | null }> => {
  const ids: number[] = [];
  let total: number | null = null;
  for (let next: string | null = path, pages = 0; next !== null && pages < 30; pages += 1) {
    const answer = await client.get(next);
    expect(answer.status, `${next}: ${JSON.stringify(answer.body)}`).toBe(200);
    ids.push(...answer.body.map((row: { id: number }) => row.id));
    const counted = answer.headers.get('x-total');
    if (counted !== null) total = Number(counted);
    const link = /<([^>]+)>; rel="next"/.exec(answer.headers.get('link') ?? '')?.[1] ?? null;
    next = link === null ? null : link.slice(link.indexOf('/api/v4') + '/api/v4'.length);
  }
  return { ids, total };
};

const walkGraphql = async (
  { client }: Who,
  args: string,
): Promise<{ readonly ids: number[]; readonly count: number }> => {
  const ids: number[] = [];
  let counted = 0;
  for (let after: string | null = null, pages = 0; pages < 30; pages += 1) {
    const { data, errors } = await client.graphql(
      `query ($after: String) { projects(first: 3, after: $after${args}) { count nodes { id } pageInfo { hasNextPage endCursor } } }`,
      { after },
    );
    expect(errors).toBeUndefined();
    counted = data.projects.count;
    ids.push(...data.projects.nodes.map((node: { id: string }) => Number(node.id.split('/').at(-1))));
    if (!data.projects.pageInfo.hasNextPage) break;
    after = data.projects.pageInfo.endCursor;
  }
  return { ids, count: counted };
};

/** The lists, each with the condition for a project to be in it. */
const LISTS: readonly {
  readonly query: string;
  readonly graphql?: string;
  readonly holds: (model: Model, who: Who, project: Project, level: number) => boolean;
}[] = [
  { query: '', graphql: '', holds: () => true },
  { query: 'order_by=name&sort=asc', holds: () => true },
  { query: 'order_by=last_activity_at', graphql: ', sort: "latest_activity_desc"', holds: () => true },
  { query: 'order_by=star_count', holds: () => true },
  { query: 'order_by=id&pagination=keyset', holds: () => true },
  { query: 'order_by=id&pagination=keyset&sort=asc&membership=true', holds: (_m, _w, _p, level) => level >= 10 },
  { query: 'membership=true', graphql: ', membership: true', holds: (_m, _w, _p, level) => level >= 10 },
  { query: 'owned=true', holds: (_m, _w, _p, level) => level >= 50 },
  { query: 'min_access_level=30&order_by=updated_at', holds: (_m, _w, _p, level) => level >= 30 },
  { query: 'visibility=private', holds: (_m, _w, project) => project.visibility === 0 },
  { query: 'visibility=internal&order_by=path', holds: (_m, _w, project) => project.visibility === 10 },
  { query: 'visibility=public&sort=asc', holds: (_m, _w, project) => project.visibility === 20 },
  { query: 'archived=true', holds: (_m, _w, project) => project.archived },
  { query: 'search=tree', graphql: ', search: "tree"', holds: () => true },
  { query: 'search=re&archived=false', holds: (_m, _w, project) => !project.archived },
  { query: 'search=tree&order_by=similarity', holds: (_m, _w, _p, level) => level >= 10 },
];

describe('who sees which projects', () => {
  it('is the same in every list, every direct read, REST, GraphQL and the model', async () => {
    await fc.assert(
      fc.asyncProperty(forest, async (given) => {
        const model = await plant(given);
        for (const [w, who] of (await everybody()).entries()) {
          const levelOn = (project: Project) => (who.id === null ? 0 : model.projectLevel(who.id, project));
          for (const [l, { query, graphql, holds }] of LISTS.entries()) {
            // Each person reads half of the lists. Which half depends on the forest alone, so that a failure can be
            // repeated.
            if ((given.groups.length + given.projects.length + w + l) % 2 === 0) continue;
            const about = `${who.name}: ${query}`;
            const expected = model.projects
              .filter((project) => model.lists(who, project) && holds(model, who, project, levelOn(project)))
              .map(({ id }) => id);
            const rest = await walk(who, `/projects?per_page=3&${query}`);
            expect(sorted(rest.ids), about).toEqual(sorted(expected));
            if (rest.total !== null) expect(rest.total, about).toBe(expected.length);
            if (graphql === undefined) continue;
            const found = await walkGraphql(who, graphql);
            expect(sorted(found.ids), `${about} (GraphQL)`).toEqual(sorted(expected));
            expect(found.count, `${about} (GraphQL)`).toBe(expected.length);
          }
          for (const project of model.projects) await readsAgree(model, who, project);
          for (const group of model.parents.keys()) await groupAgrees(model, who, group);
        }
      }),
      { numRuns: RUNS, endOnFailure: false },
    );
  });
});

const readsAgree = async (model: Model, who: Who, project: Project): Promise<void> => {
  const about = `${who.name}: ${project.full_path}`;
  const isSeen = model.sees(who, project);
  const byId = await who.client.get(`/projects/${project.id}`);
  expect(byId.status, about).toBe(isSeen ? 200 : 404);
  const byPath = await who.client.get(`/projects/${encodeURIComponent(project.full_path)}`);
  expect(byPath.status, about).toBe(isSeen ? 200 : 404);
  const { data } = await who.client.graphql('query ($path: ID!) { project(fullPath: $path) { id } }', {
    path: project.full_path,
  });
  expect(data.project !== null, `${about} (GraphQL)`).toBe(isSeen);
  if (!isSeen || who.id === null) return;
  const { project_access, group_access } = byId.body.permissions;
  const shown = Math.max(project_access?.access_level ?? 0, group_access?.access_level ?? 0);
  expect(shown, about).toBe(model.projectLevel(who.id, project));
};

const groupAgrees = async (model: Model, who: Who, group: number): Promise<void> => {
  const about = `${who.name}: group ${group}`;
  if (!model.seesGroup(who, group)) {
    expect((await who.client.get(`/groups/${group}/projects`)).status, about).toBe(404);
    return;
  }
  const shared = model.projectShares.filter((each) => each.with === group && each.expires !== PAST).map(({ at }) => at);
  const isIn = (project: Project) => project.group !== null && model.chain(project.group).includes(group);
  const expected = model.projects.filter(
    (project) => model.lists(who, project) && (isIn(project) || shared.includes(project.id)),
  );
  const found = await walk(who, `/groups/${group}/projects?include_subgroups=true&per_page=3`);
  expect(sorted(found.ids), about).toEqual(sorted(expected.map(({ id }) => id)));
  const { data } = await who.client.graphql(
    'query ($path: ID!) { group(fullPath: $path) { projects(first: 100, includeSubgroups: true) { count nodes { id } } } }',
    { path: model.groupPaths.get(group) },
  );
  const inside = expected.filter(isIn).map(({ id }) => id);
  const shown = data.group.projects.nodes.map((node: { id: string }) => Number(node.id.split('/').at(-1)));
  expect(sorted(shown), `${about} (GraphQL)`).toEqual(sorted(inside));
  expect(data.group.projects.count, `${about} (GraphQL)`).toBe(inside.length);
};
