import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';

const app = useApp();
const root = () => app().as(app().root);
const db = () => app().hub.services.db;

const MANY = 1_200;

/** Creates a group with more projects of a topic than one batch moves. Half of them are public. */
const fill = async (topic: string) => {
  const owner = await app().make.user();
  const group = await app().make.group({ visibility: 'public' }, owner);
  await sql`
    with made as (
      insert into projects (namespace_id, creator_id, name, path, full_path, visibility_level, disk_path, topics)
      select ${group.id}, ${owner.id}, 'p' || n, 'p' || n, ${group.full_path}::text || '/p' || n, case when n % 2 = 0 then 20 else 0 end,
        '@hashed/' || ${topic}::text || '/' || n || '.git', array[${topic}::text, 'beside']
      from generate_series(1, ${MANY}) n returning id)
    insert into project_statistics (project_id) select id from made`.execute(db());
  const { body } = await root().get(`/topics?search=${topic}`);
  const { id } = body.find(({ name }: { name: string }) => name === topic);
  return { owner, group, id: Number(id) };
};
/** Returns how many projects of the group a list by topic has, over REST and GraphQL. */
const found = async (group: { id: number; full_path: string }, query: string, topics: string) => {
  const rest = await root().get(`/groups/${group.id}/projects?${query}&per_page=1`);
  const { data } = await root().graphql(
    `query ($p: ID!, $t: [String!]) { group(fullPath: $p) { projects(topics: $t) { count } } }`,
    { p: group.full_path, t: [topics] },
  );
  return [Number(rest.headers.get('x-total')), data.group.projects.count];
};
const carrying = async (group: { id: number }, topic: string) => {
  const { rows } = await sql<{ n: number }>`
    select count(*)::int as n from projects where namespace_id = ${group.id} and topics @> array[${topic}::text]`.execute(
    db(),
  );
  return rows[0]?.n;
};
const countOf = async (id: number) => {
  const { rows } = await sql<{ n: number; open: number }>`
    select public_count + internal_count + private_count as n, public_count as open from topics where id = ${id}`.execute(
    db(),
  );
  return [rows[0]?.n, rows[0]?.open];
};
/** Keeps the job waiting during `run`, by locking all projects that it has to move. */
const held = async (run: () => Promise<void>) => {
  await app().settle();
  const holder = await app().hub.services.pool.connect();
  try {
    await holder.query('begin');
    await holder.query(
      `select id from projects where topics && array['moving', 'moved', 'merging', 'target', 'aim'] for update`,
    );
    await run();
  } finally {
    await holder.query('rollback');
    holder.release();
  }
  await app().settle();
};

describe('a topic of many projects', () => {
  it('is renamed at once, found by both names, and counted correctly while its projects follow', async () => {
    const { group, id } = await fill('moving');
    const [total, open] = [MANY, MANY / 2];
    await held(async () => {
      const renamed = await root().put(`/topics/${id}`, { name: 'moved' });
      expect([renamed.status, renamed.body.name, renamed.body.total_projects_count]).toEqual([200, 'moved', total]);
      for (const name of ['moved', 'moving', 'MOVING']) {
        expect([name, await found(group, `topic=${name}`, name)]).toEqual([name, [total, total]]);
      }
      expect(
        (await root().get(`/groups/${group.id}/projects?topic=beside,moved&per_page=1`)).headers.get('x-total'),
      ).toBe(String(total));
      expect((await root().get(`/projects?topic_id=${id}&per_page=1`)).headers.get('x-total')).toBe(String(total));
      expect(await countOf(id)).toEqual([total, open]);
      // Until the move is done, the old name stays reserved, and new projects with it get the new name.
      expect((await root().post('/topics', { name: 'Moving' })).status).toBe(400);
      const late = await app().make.project({ topics: ['Moving'], namespace_id: group.id });
      expect((await root().get(`/projects/${late.id}`)).body.topics).toEqual(['moved']);
      await root().delete(`/projects/${late.id}`);
      expect(await countOf(id)).toEqual([total, open]);
    });
    expect([await carrying(group, 'moving'), await carrying(group, 'moved')]).toEqual([0, total]);
    expect(await countOf(id)).toEqual([total, open]);
    expect((await root().post('/topics', { name: 'Moving' })).status).toBe(201);
    expect(await found(group, 'topic=moving', 'moving')).toEqual([0, 0]);
  });

  it('is merged and deleted in the same way, even if it is renamed before its projects have followed', async () => {
    const { group, id } = await fill('merging');
    const target = (await root().post('/topics', { name: 'target' })).body.id;
    // One project has both topics.
    await sql`update projects set topics = array['target', 'merging'] where namespace_id = ${group.id} and path = 'p2'`.execute(
      db(),
    );
    await held(async () => {
      const merged = await root().post('/topics/merge', { source_topic_id: id, target_topic_id: target });
      expect([merged.status, merged.body.total_projects_count]).toEqual([201, MANY]);
      expect(await found(group, 'topic=merging', 'target')).toEqual([MANY, MANY]);
      // Rename the target before the projects have followed.
      expect((await root().put(`/topics/${target}`, { name: 'aim' })).status).toBe(200);
      expect(await found(group, 'topic=aim', 'merging')).toEqual([MANY, MANY]);
    });
    expect([await carrying(group, 'merging'), await carrying(group, 'aim')]).toEqual([0, MANY]);
    expect(await countOf(target)).toEqual([MANY, MANY / 2]);

    await held(async () => {
      expect((await root().delete(`/topics/${target}`)).status).toBe(204);
      expect((await root().get(`/topics/${target}`)).status).toBe(404);
    });
    expect(await carrying(group, 'aim')).toBe(0);
    expect(await sql`select from topic_moves`.execute(db())).toMatchObject({ rows: [] });
  });
});
