import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';

// Covers the parameters of `GET /projects` and `GET /users/:user_id/projects` (specification 1 §4.5) that
// list.test.ts leaves out.

const app = useApp();
const root = () => app().as(app().root);
const db = () => app().hub.services.db;

const ids = async (client: Client, path: string): Promise<number[]> => {
  const { status, body } = await client.get(path);
  expect(status, JSON.stringify(body)).toBe(200);
  return body.map((each: { id: number }) => each.id);
};

const setProject = async (id: number, values: Record<string, unknown>) => {
  await db().updateTable('projects').set(values).where('id', '=', id).execute();
};

describe('GET /projects', () => {
  it('finds projects by language if the caller may read the code', async () => {
    const [owner, guest, stranger] = [await app().make.user(), await app().make.user(), await app().make.user()];
    const open = await app().make.project({ visibility: 'public' }, owner);
    const membersOnly = await app().make.project({ visibility: 'public', repository_access_level: 'private' }, owner);
    const closed = await app().make.project({}, owner);
    const off = await app().make.project({ visibility: 'public', repository_access_level: 'disabled' }, owner);
    const other = await app().make.project({ visibility: 'public' }, owner);
    const made = [open, membersOnly, closed, off].map(({ id }) => ({
      project_id: id,
      name: 'Brainfudge',
      share: 60,
      bytes: 6,
    }));
    await db()
      .insertInto('project_languages')
      .values([...made, { project_id: other.id, name: 'Brainfudge++', share: 100, bytes: 9 }])
      .execute();
    await app().make.projectMember(closed, guest, 10);
    const list = (client: Client, language = 'brainFUDGE') =>
      ids(client, `/projects?order_by=id&sort=asc&with_programming_language=${encodeURIComponent(language)}`);
    expect(await list(app().as(owner))).toEqual([open.id, membersOnly.id, closed.id]);
    expect(await list(root())).toEqual([open.id, membersOnly.id, closed.id]);
    expect(await list(app().as(guest))).toEqual([open.id]);
    expect(await list(app().as(stranger))).toEqual([open.id]);
    expect(await list(app().anonymous)).toEqual([open.id]);
    expect(await list(app().as(owner), 'brainfudge++')).toEqual([other.id]);
    expect(await list(app().as(owner), 'brain')).toEqual([]);
    expect(await list(app().as(owner), '%')).toEqual([]);
    const personal = `/users/${owner.id}/projects?with_programming_language=Brainfudge`;
    expect((await ids(app().as(owner), personal)).sort()).toEqual([open.id, membersOnly.id, closed.id]);
    expect(await ids(app().as(stranger), personal)).toEqual([open.id]);
  });

  it('shows hidden projects and those being deleted to administrators who ask', async () => {
    const owner = await app().make.user();
    const [plain, hidden, going] = [
      await app().make.project({ topics: 'reserved' }, owner),
      await app().make.project({ topics: 'reserved' }, owner),
      await app().make.project({ topics: 'reserved' }, owner),
    ];
    await setProject(hidden.id, { hidden: true });
    await setProject(going.id, { pending_delete: true });
    const list = (client: Client, query: string) =>
      ids(client, `/projects?topic=reserved&order_by=id&sort=asc&${query}`);
    expect(await list(root(), '')).toEqual([plain.id]);
    expect(await list(root(), 'include_hidden=true')).toEqual([plain.id, hidden.id]);
    expect(await list(root(), 'include_pending_delete=true')).toEqual([plain.id, going.id]);
    expect(await list(root(), 'include_hidden=1&include_pending_delete=1')).toEqual([plain.id, hidden.id, going.id]);
    expect(await list(app().as(owner), 'include_hidden=true&include_pending_delete=true')).toEqual([plain.id]);
    await setProject(plain.id, { visibility_level: 20 });
    await setProject(hidden.id, { visibility_level: 20 });
    expect(await list(app().anonymous, 'include_hidden=true')).toEqual([plain.id]);
  });

  it('ignores parameters for administrators from other callers', async () => {
    const owner = await app().make.user();
    const [near, far] = [
      await app().make.project({ topics: 'for-admins' }, owner),
      await app().make.project({ topics: 'for-admins' }, owner),
    ];
    await setProject(far.id, { repository_storage: 'far' });
    await root().put(`/projects/${near.id}/custom_attributes/team`, { value: 'blue' });
    await db().updateTable('project_statistics').set({ wiki_size: 7 }).where('project_id', '=', near.id).execute();
    const list = (client: Client, query: string) => ids(client, `/projects?topic=for-admins&${query}`);
    expect(await list(root(), 'repository_storage=far')).toEqual([far.id]);
    expect(await list(app().as(owner), 'repository_storage=far')).toEqual([far.id, near.id]);
    expect(await list(root(), 'custom_attributes[team]=blue')).toEqual([near.id]);
    expect(await list(root(), 'custom_attributes[team]=red')).toEqual([]);
    expect(await list(app().as(owner), 'custom_attributes[team]=red')).toEqual([far.id, near.id]);
    // For other callers, ordering by a size falls back to the date of creation.
    expect(await list(root(), 'order_by=wiki_size')).toEqual([near.id, far.id]);
    expect(await list(app().as(owner), 'order_by=wiki_size')).toEqual([far.id, near.id]);
    expect(await list(app().as(owner), 'order_by=wiki_size&sort=asc')).toEqual([near.id, far.id]);
    const listed = async (client: Client) =>
      (await client.get(`/projects?topic=for-admins&with_custom_attributes=true&order_by=id&sort=asc`)).body[0]
        .custom_attributes;
    expect(await listed(root())).toEqual([{ key: 'team', value: 'blue' }]);
    expect(await listed(app().as(owner))).toBeUndefined();
  });

  it('finds nothing for failed checksums, because none are computed', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    for (const name of ['repository_checksum_failed', 'wiki_checksum_failed']) {
      expect(await ids(app().as(owner), `/projects?owned=true&${name}=true`)).toEqual([]);
      expect(await ids(app().as(owner), `/projects?owned=true&${name}=false`)).toEqual([project.id]);
    }
  });

  it('filters by deletion date, whether the project or a group above was marked', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const [own, inherited, both, free] = [
      await app().make.project({ topics: 'marked-on' }, owner),
      await app().make.project({ topics: 'marked-on', namespace_id: group.id }, owner),
      await app().make.project({ topics: 'marked-on', namespace_id: group.id }, owner),
      await app().make.project({ topics: 'marked-on' }, owner),
    ];
    await setProject(own.id, { marked_for_deletion_on: '2020-02-01' });
    await setProject(both.id, { marked_for_deletion_on: '2020-01-01' });
    await db()
      .updateTable('namespaces')
      .set({ marked_for_deletion_on: '2020-02-01', deletion_marked_on: '2020-02-01' })
      .where('id', '=', group.id)
      .execute();
    const list = (query: string) => ids(app().as(owner), `/projects?topic=marked-on&order_by=id&sort=asc&${query}`);
    expect(await list('marked_for_deletion_on=2020-02-01')).toEqual([own.id, inherited.id]);
    expect(await list('marked_for_deletion_on=2020-01-01')).toEqual([both.id]);
    expect(await list('marked_for_deletion_on=2020-03-01')).toEqual([]);
    expect(await list('')).toEqual([own.id, inherited.id, both.id, free.id]);
    const shown = (await app().as(owner).get('/projects?topic=marked-on&order_by=id&sort=asc')).body;
    expect(shown.map((each: { marked_for_deletion_on: string | null }) => each.marked_for_deletion_on)).toEqual([
      '2020-02-01',
      '2020-02-01',
      '2020-01-01',
      null,
    ]);
    // Unmark the group, since a deleted group takes its projects along.
    await db()
      .updateTable('namespaces')
      .set({ marked_for_deletion_on: null, deletion_marked_on: null })
      .where('id', '=', group.id)
      .execute();
  });

  it('filters by minimum role, membership, ownership and stars, and finds nothing for anonymous callers', async () => {
    const [owner, user] = [await app().make.user(), await app().make.user()];
    const group = await app().make.group({}, owner);
    const [direct, byGroup, open, closed] = [
      await app().make.project({ topics: 'by-role' }, owner),
      await app().make.project({ topics: 'by-role', namespace_id: group.id }, owner),
      await app().make.project({ topics: 'by-role', visibility: 'public' }, owner),
      await app().make.project({ topics: 'by-role' }, owner),
    ];
    await app().make.projectMember(direct, user, 20);
    await app().make.groupMember(group, user, 40);
    await app().as(user).post(`/projects/${open.id}/star`);
    const list = (client: Client, query: string) =>
      ids(client, `/projects?topic=by-role&order_by=id&sort=asc&${query}`);
    const mine = app().as(user);
    expect(await list(mine, '')).toEqual([direct.id, byGroup.id, open.id]);
    expect(await list(mine, 'membership=true')).toEqual([direct.id, byGroup.id]);
    for (const [level, expected] of [
      [5, [direct.id, byGroup.id]],
      [10, [direct.id, byGroup.id]],
      [15, [direct.id, byGroup.id]],
      [20, [direct.id, byGroup.id]],
      [30, [byGroup.id]],
      [40, [byGroup.id]],
      [50, []],
    ] as const) {
      expect(await list(mine, `min_access_level=${level}`), `level ${level}`).toEqual(expected);
    }
    expect(await list(mine, 'owned=true')).toEqual([]);
    expect(await list(app().as(owner), 'owned=true')).toEqual([direct.id, byGroup.id, open.id, closed.id]);
    expect(await list(mine, 'starred=true')).toEqual([open.id]);
    expect(await list(app().as(owner), 'starred=true')).toEqual([]);
    expect(await list(app().anonymous, '')).toEqual([open.id]);
    for (const query of ['membership=true', 'owned=true', 'starred=true', 'min_access_level=10', 'imported=true']) {
      expect(await list(app().anonymous, query), query).toEqual([]);
    }
    expect(await ids(app().anonymous, '/projects?topic=by-role&order_by=similarity&search=project')).toEqual([]);
    expect(await list(app().anonymous, 'membership=false&owned=no')).toEqual([open.id]);
  });

  it('orders by similarity only with a search, and then lists only projects of the caller', async () => {
    const [owner, other] = [await app().make.user(), await app().make.user()];
    const mine = [
      await app().make.project({ name: 'quokka lists of many things' }, owner),
      await app().make.project({ name: 'quokka' }, owner),
    ];
    await app().make.project({ name: 'quokka', visibility: 'public' }, other);
    expect(await ids(app().as(owner), '/projects?search=quokka&order_by=similarity')).toEqual([
      mine[1]?.id,
      mine[0]?.id,
    ]);
    expect(await ids(app().as(owner), '/projects?search=quokka')).toHaveLength(3);
    expect(await ids(app().as(owner), '/projects?owned=1&order_by=similarity&sort=asc')).toEqual(
      mine.map(({ id }) => id),
    );
  });

  it('filters by time, but by `updated_at` only if it is also the order', async () => {
    const owner = await app().make.user();
    const [old, young] = [await app().make.project({}, owner), await app().make.project({}, owner)];
    await app().settle(); // Creating a project also updates `last_activity_at`.
    await setProject(old.id, { updated_at: '2020-01-01T00:00:00Z', last_activity_at: '2020-01-02T00:00:00Z' });
    const list = (query: string) => ids(app().as(owner), `/projects?owned=1&${query}`);
    expect(await list('last_activity_before=2020-01-03')).toEqual([old.id]);
    expect(await list('last_activity_before=2020-01-02T00:00:00Z')).toEqual([old.id]);
    expect(await list('last_activity_before=2020-01-01T23:59:59.999Z')).toEqual([]);
    expect(await list('last_activity_after=2020-01-02T00:00:00+00:00')).toEqual([young.id, old.id]);
    expect(await list('last_activity_after=2020-01-02T00:00:00.001Z')).toEqual([young.id]);
    expect(await list('updated_before=2020-01-03&order_by=updated_at')).toEqual([old.id]);
    expect(await list('updated_after=2020-01-03&order_by=updated_at')).toEqual([young.id]);
    expect(await list('updated_before=2020-01-03')).toEqual([young.id, old.id]);
    expect(await list('updated_after=2020-01-03&order_by=last_activity_at')).toEqual([young.id, old.id]);
    const personal = (query: string) => ids(app().as(owner), `/users/${owner.id}/projects?${query}`);
    expect(await personal('updated_before=2020-01-03&order_by=updated_at')).toEqual([old.id]);
    expect(await personal('updated_before=2020-01-03')).toEqual([young.id, old.id]);
  });

  it('lists projects imported by the caller, not by others', async () => {
    const [owner, other] = [await app().make.user(), await app().make.user()];
    const imported = await app().make.project({ visibility: 'public' }, owner);
    await app().make.project({ visibility: 'public' }, owner);
    await setProject(imported.id, { imported: true, import_type: 'git' });
    expect(await ids(app().as(owner), '/projects?imported=true')).toEqual([imported.id]);
    expect(await ids(app().as(other), '/projects?imported=true')).toEqual([]);
  });

  it.each([
    ['archived=maybe', 'archived is invalid (allowed: true, false)'],
    ['id_after=a', 'id_after is invalid (allowed: a whole number)'],
    ['id_before=1.5', 'id_before is invalid (allowed: a whole number)'],
    ['imported=2', 'imported is invalid (allowed: true, false)'],
    ['include_hidden=x', 'include_hidden is invalid (allowed: true, false)'],
    ['include_pending_delete=x', 'include_pending_delete is invalid (allowed: true, false)'],
    ['last_activity_after=today', 'last_activity_after is invalid (allowed: a time, ISO 8601)'],
    ['last_activity_before=2020-02-30', 'last_activity_before is invalid (allowed: a time, ISO 8601)'],
    ['membership=x', 'membership is invalid (allowed: true, false)'],
    ['min_access_level=17', 'min_access_level does not have a valid value (allowed: 5, 10, 15, 20, 30, 40, 50)'],
    ['min_access_level=Guest', 'min_access_level is invalid (allowed: a whole number)'],
    [
      'order_by=Name',
      expect.stringContaining('order_by does not have a valid value (allowed: id, name, path, created_at,'),
    ],
    ['owned=x', 'owned is invalid (allowed: true, false)'],
    ['repository_checksum_failed=x', 'repository_checksum_failed is invalid (allowed: true, false)'],
    ['wiki_checksum_failed=x', 'wiki_checksum_failed is invalid (allowed: true, false)'],
    ['repository_storage[]=x', 'repository_storage is invalid (allowed: a string)'],
    ['search_namespaces=x', 'search_namespaces is invalid (allowed: true, false)'],
    ['search[a]=x', 'search is invalid (allowed: a string)'],
    ['simple=x', 'simple is invalid (allowed: true, false)'],
    ['sort=up', 'sort does not have a valid value (allowed: asc, desc)'],
    ['starred=x', 'starred is invalid (allowed: true, false)'],
    ['statistics=x', 'statistics is invalid (allowed: true, false)'],
    ['topic_id=ruby', 'topic_id is invalid (allowed: a whole number)'],
    ['topic[a]=x', 'topic is invalid'],
    ['updated_after=x', 'updated_after is invalid (allowed: a time, ISO 8601)'],
    ['updated_before=x', 'updated_before is invalid (allowed: a time, ISO 8601)'],
    ['visibility=secret', 'visibility does not have a valid value (allowed: private, internal, public)'],
    ['with_custom_attributes=x', 'with_custom_attributes is invalid (allowed: true, false)'],
    ['with_issues_enabled=x', 'with_issues_enabled is invalid (allowed: true, false)'],
    ['with_merge_requests_enabled=x', 'with_merge_requests_enabled is invalid (allowed: true, false)'],
    ['with_programming_language[]=x', 'with_programming_language is invalid (allowed: a string)'],
    ['marked_for_deletion_on=2020-13-01', 'marked_for_deletion_on is invalid (allowed: a date, YYYY-MM-DD)'],
    ['custom_attributes=x', 'custom_attributes is invalid (allowed: a hash, x[key]=value)'],
    ['custom_attributes[a][b]=x', 'custom_attributes is invalid (allowed: a hash, x[key]=value)'],
    ['page=0', 'page does not have a valid value (allowed: 1 or more)'],
    ['per_page=0', 'per_page does not have a valid value (allowed: 1 or more)'],
    ['per_page=many', 'per_page is invalid (allowed: a whole number)'],
    ['pagination=cursor', 'pagination does not have a valid value (allowed: keyset, legacy, offset)'],
    [
      'sort=up&owned=x',
      'owned is invalid (allowed: true, false), sort does not have a valid value (allowed: asc, desc)',
    ],
  ])('refuses %s and lists the allowed values', async (query, error) => {
    const user = await app().make.user();
    for (const client of [app().as(user), app().anonymous]) {
      const { status, body } = await client.get(`/projects?${query}`);
      expect([status, body]).toEqual([400, { error }]);
    }
  });

  it('ignores empty values and unknown parameters', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const query = 'owned=true&archived=&min_access_level=&order_by=&visibility=&search=&nonsense=1&topic_id=&topic=';
    expect(await ids(app().as(owner), `/projects?${query}`)).toEqual([project.id]);
  });

  it.each(['search', 'with_programming_language', 'repository_storage'])(
    'lists all for a blank %s, even after a query with a value',
    async (name) => {
      const project = await app().make.project({}, await app().make.user());
      const path = `/projects?id_after=${project.id - 1}&id_before=${project.id + 1}&${name}=`;
      expect(await ids(root(), `${path}no-such-thing`)).toEqual([]);
      expect(await ids(root(), path)).toEqual([project.id]);
      expect(await ids(root(), `${path}no-such-thing`)).toEqual([]);
    },
  );
});

describe('a page of projects', () => {
  it('has at most a hundred records, and is empty past the end', async () => {
    const owner = await app().make.user();
    await app().make.project({}, owner);
    const clamped = await app().as(owner).get('/projects?owned=1&per_page=1000');
    expect([clamped.status, clamped.headers.get('x-per-page')]).toEqual([200, '100']);
    const past = await app().as(owner).get('/projects?owned=1&page=7');
    expect([past.status, past.body]).toEqual([200, []]);
    expect(Object.fromEntries(past.headers)).toMatchObject({
      'x-page': '7',
      'x-total': '1',
      'x-total-pages': '1',
      'x-next-page': '',
      'x-prev-page': '6',
    });
    const none = await app().as(owner).get('/projects?owned=1&search=nothing-like-it');
    expect([none.body, none.headers.get('x-total'), none.headers.get('x-total-pages')]).toEqual([[], '0', '1']);
  });

  it('is reached by offset within the first 50,000 records, and beyond them only by keyset', async () => {
    const owner = app().as(await app().make.user());
    expect((await owner.get('/projects?per_page=100&page=500')).status).toBe(200);
    expect((await owner.get('/projects?page=2500')).status).toBe(200);
    for (const query of ['per_page=100&page=501', 'page=2501', 'per_page=1&page=50001', 'page=9007199254740991']) {
      const { status, body } = await owner.get(`/projects?${query}`);
      expect(status).toBe(405);
      expect(body.error).toContain('keyset pagination');
    }
  });

  it('supports keyset pagination only in the order of ids', async () => {
    const client = app().as(await app().make.user());
    for (const order of [
      'name',
      'path',
      'created_at',
      'updated_at',
      'last_activity_at',
      'star_count',
      'similarity',
      'storage_size',
    ]) {
      const { status, body } = await client.get(`/projects?pagination=keyset&order_by=${order}`);
      expect([status, body]).toEqual([
        405,
        { error: 'Keyset pagination is not yet available for this type of request' },
      ]);
    }
    expect((await client.get('/projects?pagination=keyset')).status).toBe(200);
  });

  it('keeps all parameters in its links, by offset and by keyset', async () => {
    const owner = await app().make.user();
    const made = [
      await app().make.project({}, owner),
      await app().make.project({}, owner),
      await app().make.project({}, owner),
    ];
    const client = app().as(owner);
    const linked =
      (await client.get('/projects?owned=true&search=project&per_page=1&page=2')).headers.get('link') ?? '';
    const links = Object.fromEntries(
      [...linked.matchAll(/<([^>]+)>; rel="(\w+)"/g)].map(([, url = '', rel]) => [rel, new URL(url)]),
    );
    expect(Object.keys(links).sort()).toEqual(['first', 'last', 'next', 'prev']);
    for (const [rel, page] of [
      ['first', '1'],
      ['prev', '1'],
      ['next', '3'],
      ['last', '3'],
    ] as const) {
      expect(Object.fromEntries(links[rel]?.searchParams ?? [])).toEqual({
        owned: 'true',
        search: 'project',
        per_page: '1',
        page,
      });
    }
    const keyset = '/projects?owned=true&pagination=keyset&per_page=2&sort=asc&id_before=999999999';
    const first = await client.get(keyset);
    const next = new URL(/<([^>]+)>; rel="next"/.exec(first.headers.get('link') ?? '')?.[1] ?? '');
    expect(Object.fromEntries(next.searchParams)).toMatchObject({
      id_after: String(made[1]?.id),
      id_before: '999999999',
      sort: 'asc',
    });
    const second = await client.get(`${next.pathname}${next.search}`);
    expect(second.body.map((each: { id: number }) => each.id)).toEqual([made[2]?.id]);
    expect(second.headers.get('link')).toBeNull();
    const head = await client.head(keyset);
    expect([head.status, head.body, head.headers.get('link')]).toEqual([200, '', first.headers.get('link')]);
  });
});

describe('GET /users/:user_id/projects', () => {
  it('lists only the projects in the personal namespace, by id or user name', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({ visibility: 'public' }, owner);
    await app().make.project({ visibility: 'public', namespace_id: group.id }, owner);
    const own = await app().make.project({ visibility: 'public' }, owner);
    const closed = await app().make.project({}, owner);
    const path = `/users/${owner.username.toUpperCase()}/projects`;
    expect(await ids(app().as(owner), path)).toEqual([closed.id, own.id]);
    expect(await ids(app().anonymous, path)).toEqual([own.id]);
    expect(await ids(app().as(owner), `${path}?visibility=private`)).toEqual([closed.id]);
    expect(await ids(app().as(owner), `${path}?id_after=${own.id}`)).toEqual([closed.id]);
    expect(await ids(app().as(owner), `${path}?id_before=${closed.id}`)).toEqual([own.id]);
    expect(await ids(app().as(owner), `${path}?search=${own.path}`)).toEqual([own.id]);
    expect(await ids(app().as(owner), `${path}?owned=1&membership=1&min_access_level=50&starred=0`)).toEqual([
      closed.id,
      own.id,
    ]);
    expect(await ids(app().as(owner), `${path}?starred=true`)).toEqual([]);
    await app().as(owner).post(`/projects/${own.id}/archive`);
    expect(await ids(app().as(owner), `${path}?archived=true`)).toEqual([own.id]);
    expect(await ids(app().as(owner), `${path}?archived=false`)).toEqual([closed.id]);
    expect(Object.keys((await app().as(owner).get(`${path}?simple=true`)).body[0])).not.toContain('visibility');
    for (const order of ['star_count', 'similarity', 'storage_size']) {
      const { status, body } = await app().as(owner).get(`${path}?order_by=${order}`);
      expect([status, body.error]).toEqual([
        400,
        'order_by does not have a valid value (allowed: id, name, path, created_at, updated_at, last_activity_at)',
      ]);
    }
  });

  it('returns 404 for an unknown user', async () => {
    for (const id of ['999999999', 'nobody-of-this-name', '%00']) {
      const { status } = await app().anonymous.get(`/users/${id}/projects`);
      expect([404, 400]).toContain(status);
    }
    expect((await app().anonymous.get('/users/999999999/projects')).body).toEqual({ message: '404 User Not Found' });
  });
});
