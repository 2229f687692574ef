import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { png } from '../support/pictures.ts';

const app = useApp();
const root = () => app().as(app().root);

/** Returns the topic with this name, as the administrator sees it. */
const named = async (name: string) =>
  (await root().get(`/topics?search=${encodeURIComponent(name)}&per_page=100`)).body.find(
    (each: { name: string }) => each.name.toLowerCase() === name.toLowerCase(),
  );
/** A project that another transaction locks gets its new topics by a job, so wait for jobs first. */
const topicsOf = async (id: number) => {
  await app().settle();
  return (await root().get(`/projects/${id}`)).body.topics;
};

describe('a topic of projects', () => {
  it('is created with its first project, and keeps its spelling and its count', async () => {
    const owner = await app().make.user();
    const first = await app().make.project({ topics: ['Kept-One', ' Kept-Two ', 'kept-one'] }, owner);
    expect(await topicsOf(first.id)).toEqual(['Kept-One', 'Kept-Two']);
    const second = await app().make.project({ topics: ['kept-TWO', 'KEPT-ONE'], visibility: 'public' }, owner);
    expect(await topicsOf(second.id)).toEqual(['Kept-Two', 'Kept-One']);
    const topic = await named('kept-one');
    expect(topic).toEqual({
      id: expect.any(Number),
      name: 'Kept-One',
      title: 'Kept-One',
      description: null,
      total_projects_count: 2,
      avatar_url: null,
    });
    await app()
      .as(owner)
      .put(`/projects/${second.id}`, { topics: ['Kept-Two'] });
    expect(await named('Kept-One')).toMatchObject({ id: topic.id, total_projects_count: 1 });
    await app().as(owner).delete(`/projects/${first.id}`);
    expect(await named('Kept-One')).toMatchObject({ id: topic.id, total_projects_count: 0 });
    expect(await named('Kept-Two')).toMatchObject({ total_projects_count: 1 });
  });

  it('finds projects by id and by name in any case, and by several topics together', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const both = await app().make.project({ topics: ['Find-A', 'Find-B'] }, owner);
    const one = await app().make.project({ topics: ['Find-A'] }, owner);
    const list = async (query: string) =>
      (await client.get(`/projects?order_by=id&sort=asc&${query}`)).body.map((each: { id: number }) => each.id);
    const { id } = await named('find-a');
    expect(await list(`topic_id=${id}`)).toEqual([both.id, one.id]);
    expect(await list('topic=find-a')).toEqual([both.id, one.id]);
    expect(await list('topic=find-a,FIND-B')).toEqual([both.id]);
    expect(await list(`topic_id=${id}&topic=find-b`)).toEqual([both.id]);
    expect(await list('topic=find-a,find-c')).toEqual([]);
    expect(await list('topic_id=999999999')).toEqual([]);
    expect((await client.get('/projects?topic_id=x')).body.error).toContain('topic_id is invalid');
    const stranger = app().as(await app().make.user());
    expect((await stranger.get(`/projects?topic_id=${id}`)).body).toEqual([]);
  });

  it('reveals nothing of projects that the caller cannot see', async () => {
    const owner = await app().make.user();
    const [stranger, external] = [await app().make.user(), await app().make.user({ external: true })];
    const project = await app().make.project({ topics: ['closed-topic'] }, owner);
    const { id } = await named('closed-topic');
    const callers = [root(), app().as(stranger), app().as(external), app().anonymous];
    const shownCounts = () =>
      Promise.all(
        callers.map(async (caller) => {
          const { body } = await caller.get('/topics?search=closed-topic');
          const one = await caller.get(`/topics/${id}`);
          expect(one.status).toBe(body.length === 1 ? 200 : 404);
          return body[0]?.total_projects_count ?? null;
        }),
      );
    expect(await shownCounts()).toEqual([1, null, null, null]);
    expect((await app().anonymous.get(`/topics/${id}`)).body).toEqual({ message: '404 Topic Not Found' });
    await app().as(owner).put(`/projects/${project.id}`, { visibility: 'internal' });
    expect(await shownCounts()).toEqual([1, 1, null, null]);
    await app().as(owner).put(`/projects/${project.id}`, { visibility: 'public' });
    expect(await shownCounts()).toEqual([1, 1, 1, 1]);
    await app().as(owner).put(`/projects/${project.id}`, { visibility: 'private' });
    expect(await shownCounts()).toEqual([1, null, null, null]);
    // A change by an administrator makes the topic public, but not its projects.
    await root().put(`/topics/${id}`, { title: 'Closed' });
    expect(await shownCounts()).toEqual([1, 0, 0, 0]);
  });

  it('is counted correctly under concurrent changes', async () => {
    const owner = await app().make.user();
    const names = ['busy-a', 'busy-b', 'busy-c'];
    const made = await Promise.all(
      Array.from({ length: 6 }, (_, i) => app().make.project({ topics: i % 2 ? names : names.toReversed() }, owner)),
    );
    expect((await named('busy-b')).total_projects_count).toBe(6);
    await Promise.all(
      made.map(({ id }, i) =>
        app()
          .as(owner)
          .put(`/projects/${id}`, { topics: i % 2 ? ['busy-b', 'busy-a'] : ['busy-a'] }),
      ),
    );
    const counts = async () => [
      (await named('busy-a')).total_projects_count,
      (await named('busy-b')).total_projects_count,
    ];
    expect(await counts()).toEqual([6, 3]);
    const group = await app().make.group({}, owner);
    await app().make.project({ topics: ['busy-a'], namespace_id: group.id }, owner);
    await app().make.project({ topics: ['busy-b', 'busy-a'], namespace_id: group.id }, owner);
    expect(await counts()).toEqual([8, 4]);
    await app().as(owner).delete(`/groups/${group.id}`);
    await app().settle();
    expect(await counts()).toEqual([6, 3]);
  });
});

describe('a topic of an administrator', () => {
  it('is created, changed, shown with a picture, and deleted', async () => {
    const made = await root().post('/topics', { name: 'made-topic', title: 'Made', description: 'd' });
    expect([made.status, made.body]).toEqual([
      201,
      {
        id: expect.any(Number),
        name: 'made-topic',
        title: 'Made',
        description: 'd',
        total_projects_count: 0,
        avatar_url: null,
      },
    ]);
    const path = `/topics/${made.body.id}`;
    expect((await app().anonymous.get(path)).body).toEqual(made.body);
    const form = new FormData();
    form.set('avatar', new Blob([new Uint8Array(png())]), 'a.png');
    const { avatar_url } = (await root().put(path, form)).body;
    const picture = await app().anonymous.fetch('GET', `/api/../${new URL(avatar_url).pathname.slice(1)}`);
    expect([picture.status, picture.headers.get('content-type')]).toEqual([200, 'image/png']);
    expect((await root().put(path, { avatar: '' })).body.avatar_url).toBeNull();
    expect((await root().put(path, { description: 'Changed' })).body).toEqual({ ...made.body, description: 'Changed' });
    const created = new FormData();
    created.set('name', 'pictured-at-once');
    created.set('title', 'Pictured at once');
    created.set('avatar', new Blob([new Uint8Array(png())]), 'b.png');
    expect((await root().post('/topics', created)).body.avatar_url).toMatch(/\.png$/);
    const carrying = await app().make.project({ topics: ['MADE-topic', 'other-topic'] });
    expect(await topicsOf(carrying.id)).toEqual(['made-topic', 'other-topic']);
    expect((await root().delete(path)).status).toBe(204);
    expect(await topicsOf(carrying.id)).toEqual(['other-topic']);
    expect((await root().get(path)).status).toBe(404);
    expect((await root().delete(path)).status).toBe(404);
  });

  it('takes its projects along when it is renamed', async () => {
    const project = await app().make.project({ topics: ['before-name', 'beside'], visibility: 'public' });
    const { updated_at } = (await root().get(`/projects/${project.id}`)).body;
    const { id } = await named('before-name');
    const renamed = await root().put(`/topics/${id}`, { name: 'After-Name' });
    expect(renamed.body).toMatchObject({ id, name: 'After-Name', title: 'before-name', total_projects_count: 1 });
    await app().settle();
    const record = (await root().get(`/projects/${project.id}`)).body;
    expect(record.topics).toEqual(['After-Name', 'beside']);
    expect(record.updated_at > updated_at).toBe(true);
    const cased = await root().put(`/topics/${id}`, { name: 'after-name' });
    expect(cased.body).toMatchObject({ name: 'after-name', total_projects_count: 1 });
    expect(await topicsOf(project.id)).toEqual(['after-name', 'beside']);
    expect((await root().put(`/topics/${id}`, { name: 'BESIDE' })).body).toEqual({
      message: { name: ['has already been taken'] },
    });
    expect(await topicsOf(project.id)).toEqual(['after-name', 'beside']);
  });

  it('is merged', async () => {
    const [one, two] = [
      await app().make.project({ topics: ['merge-from', 'merge-to', 'merge-else'] }),
      await app().make.project({ topics: ['merge-from'], visibility: 'public' }),
    ];
    const [from, to] = [await named('merge-from'), await named('merge-to')];
    const input = { source_topic_id: from.id, target_topic_id: to.id };
    expect(
      (
        await app()
          .as(await app().make.user())
          .post('/topics/merge', input)
      ).status,
    ).toBe(403);
    const merged = await root().post('/topics/merge', input);
    expect([merged.status, merged.body]).toMatchObject([201, { id: to.id, name: 'merge-to', total_projects_count: 2 }]);
    expect([await topicsOf(one.id), await topicsOf(two.id)]).toEqual([['merge-to', 'merge-else'], ['merge-to']]);
    expect((await root().get(`/topics/${from.id}`)).status).toBe(404);
    expect((await root().post('/topics/merge', { ...input, source_topic_id: to.id })).status).toBe(400);
    expect((await root().post('/topics/merge', input)).status).toBe(404);
  });

  it.each([
    [{ name: '' }, { message: { name: ["can't be blank"] } }],
    [{}, { error: 'name is missing' }],
    [{ name: 'a,b' }, { message: { name: ['must not contain a comma'] } }],
    [{ name: 'a\nb' }, { message: { name: ['must not contain line breaks'] } }],
    [{ name: 'n'.repeat(256) }, { message: { name: ['is too long (maximum is 255 characters)'] } }],
    [{ name: 'wrong-title', title: ' ' }, { message: { title: ["can't be blank"] } }],
    [
      { name: 'wrong', description: 'd'.repeat(1025) },
      { message: { description: ['is too long (maximum is 1024 characters)'] } },
    ],
  ])('is refused: %j', async (input, expected) => {
    const { status, body } = await root().post('/topics', input);
    expect([status, body]).toEqual([400, expected]);
  });

  it('can be changed only by administrators', async () => {
    const { body } = await root().post('/topics', { name: 'not-yours' });
    const user = app().as(await app().make.user());
    expect((await user.post('/topics', { name: 'mine' })).status).toBe(403);
    expect((await user.put(`/topics/${body.id}`, { title: 'mine' })).status).toBe(403);
    expect((await user.delete(`/topics/${body.id}`)).status).toBe(403);
    expect((await app().anonymous.delete(`/topics/${body.id}`)).status).toBe(401);
    expect((await root().get(`/topics/${body.id}`)).body.title).toBe('not-yours');
    expect((await root().post('/topics', { name: 'NOT-YOURS' })).body).toEqual({
      message: { name: ['has already been taken'] },
    });
  });
});

describe('a list of topics', () => {
  it('starts with those of most projects, and can be paginated and searched', async () => {
    for (let i = 0; i < 3; i++) {
      const topics = ['order-1', 'order-2', 'order-3'].slice(i);
      await app().make.project({ topics, visibility: 'public' });
    }
    const names = async (path: string) =>
      (await app().anonymous.get(path)).body.map((each: { name: string }) => each.name);
    expect(await names('/topics?search=ORDER-')).toEqual(['order-3', 'order-2', 'order-1']);
    expect(await names('/topics?search=order-&per_page=1&page=2')).toEqual(['order-2']);
    expect(await names('/topics?search=order_')).toEqual([]);
    await root().post('/topics', { name: 'order-0' });
    expect(await names('/topics?search=order-&without_projects=true')).toEqual(['order-0']);
    const { data, errors } = await app().anonymous.graphql(
      `{ topics(search: "order-", first: 2) { count nodes { id name title totalProjectsCount } pageInfo { hasNextPage endCursor } } }`,
    );
    expect(errors).toBeUndefined();
    expect(data.topics).toMatchObject({
      count: 4,
      nodes: [
        { id: expect.stringContaining('gid://gitlab/Projects::Topic/'), name: 'order-3', totalProjectsCount: 3 },
        { name: 'order-2', totalProjectsCount: 2 },
      ],
      pageInfo: { hasNextPage: true },
    });
    const rest = await app().anonymous.graphql(
      'query ($after: String) { topics(search: "order-", after: $after) { nodes { name } } }',
      { after: data.topics.pageInfo.endCursor },
    );
    expect(rest.data.topics.nodes).toEqual([{ name: 'order-1' }, { name: 'order-0' }]);
  });

  it('matches the topics of all projects at the end of these tests', async () => {
    const { rows } = await sql<{ name: string }>`
      select coalesce(t.name, p.name) as name from topics t
      full join (
        select topic as name, count(*) filter (where visibility_level = 20) as a,
          count(*) filter (where visibility_level = 10) as b, count(*) filter (where visibility_level = 0) as c
        from projects, unnest(topics) as topic group by topic) p on p.name = t.name
      where t.id is null
        or (t.public_count, t.internal_count, t.private_count) <> (coalesce(p.a, 0), coalesce(p.b, 0), coalesce(p.c, 0))`.execute(
      app().hub.services.db,
    );
    expect(rows).toEqual([]);
  });
});
