import { beforeAll, describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import type { TestGroup, TestProject } from '../support/factories.ts';

// The rows about runners in section 9 of specification 3.

const app = useApp();
const owned = () => app().as(owner);
const v5 = (path: string) => `/api/v5${path}`;

let owner: TestUser;
let group: TestGroup;
let project: TestProject;
let ids: Readonly<Record<string, number>>;

/** When runners were in contact last, with their status in version 4 and in version 5. */
const RUNNERS = [
  ['fresh', "interval '1 minute'", "interval '1 day'", 'online', 'online'],
  ['silent', "interval '1 day'", "interval '2 days'", 'offline', 'offline'],
  ['old', "interval '30 days'", "interval '60 days'", 'stale', 'offline'],
  ['new', null, "interval '1 minute'", 'never_contacted', 'not_connected'],
  ['forgotten', null, "interval '30 days'", 'stale', 'not_connected'],
] as const;

beforeAll(async () => {
  owner = await app().make.user();
  group = await app().make.group({}, owner);
  project = await app().make.project({ namespace_id: group.id }, owner);
  const { pool } = app().hub.services;
  const made = RUNNERS.map(async ([name, contacted, created]) => {
    const input = { runner_type: 'project_type', project_id: project.id, description: name };
    const { body } = await owned().post('/user/runners', input);
    await pool.query(
      `update runners set contacted_at = ${contacted ? `now() - ${contacted}` : 'null'}, created_at = now() - ${created} where id = $1`,
      [body.id],
    );
    if (contacted) {
      await pool.query(
        `insert into runner_managers (runner_id, system_id, contacted_at, version, revision, platform, architecture, ip_address)
         values ($1, 's', now() - ${contacted}, '19.4.0', 'abc', 'linux', 'amd64', '127.0.0.9')`,
        [body.id],
      );
    }
    return [name, body.id] as const;
  });
  ids = Object.fromEntries(await Promise.all(made));
});

const lists = () => ['/runners', `/projects/${project.id}/runners`, `/groups/${group.id}/runners`];

describe('runners in version 5', () => {
  it('have no active, address and version, in lists and one by one', async () => {
    const [old, now] = await Promise.all([
      owned().get(`/runners/${ids.fresh}`),
      owned().get(v5(`/runners/${ids.fresh}`)),
    ]);
    const gone = ['active', 'architecture', 'ip_address', 'platform', 'revision', 'version'];
    expect(
      Object.keys(old.body)
        .filter((name) => !(name in now.body))
        .sort(),
    ).toEqual(gone);
    expect(old.body).toMatchObject({ active: true, paused: false, version: '19.4.0', ip_address: '127.0.0.9' });
    expect(now.body).toMatchObject({ paused: false, online: true });
    for (const path of lists().slice(0, 2)) {
      const { body } = await owned().get(v5(path));
      expect(body).toHaveLength(RUNNERS.length);
      expect(Object.keys(body[0])).not.toEqual(expect.arrayContaining(['active']));
      expect(body[0]).not.toHaveProperty('ip_address');
    }
    const all = await app().as(app().root).get(v5('/runners/all'));
    expect(all.body[0]).not.toHaveProperty('active');
    const [manager] = (await owned().get(v5(`/runners/${ids.fresh}/managers`))).body;
    expect(manager).toMatchObject({ version: '19.4.0', ip_address: '127.0.0.9', status: 'online' });
  });

  it('only have statuses of contact', async () => {
    for (const [name, , , old, now] of RUNNERS) {
      expect([name, (await owned().get(`/runners/${ids[name]}`)).body.status]).toEqual([name, old]);
      expect([name, (await owned().get(v5(`/runners/${ids[name]}`))).body.status]).toEqual([name, now]);
    }
    for (const status of ['online', 'offline', 'not_connected']) {
      const expected = RUNNERS.filter((row) => row[4] === status).map(([name]) => name);
      for (const path of lists().slice(0, 2)) {
        const { body } = await owned().get(v5(`${path}?status=${status}`));
        expect(body.map(({ description }: { description: string }) => description).sort()).toEqual(expected.sort());
      }
    }
    for (const status of ['active', 'paused', 'stale', 'never_contacted']) {
      for (const path of lists()) {
        expect((await owned().get(`${path}?status=${status}`)).status).toBe(200);
        expect(await owned().get(v5(`${path}?status=${status}`))).toMatchObject({
          status: 400,
          body: { error: 'status must be one of online, offline, not_connected: use `paused` for the rest' },
        });
      }
    }
  });

  it('are paused by paused', async () => {
    const path = `/runners/${ids.fresh}`;
    expect((await owned().put(path, { active: false })).body).toMatchObject({ active: false, paused: true });
    expect(await owned().put(v5(path), { active: true })).toMatchObject({
      status: 400,
      body: { error: 'active was removed in version 5 of the API: use `paused`' },
    });
    const { body } = await owned().put(v5(path), { paused: false });
    expect(body.paused).toBe(false);
    expect(body).not.toHaveProperty('active');
    const other = await app().make.project({ namespace_id: group.id }, owner);
    const assigned = await owned().post(v5(`/projects/${other.id}/runners`), { runner_id: ids.fresh });
    expect(assigned.status).toBe(201);
    expect(assigned.body).not.toHaveProperty('active');
    const paused = await owned().get(v5('/runners?paused=true'));
    expect(paused.body).toEqual([]);
  });

  it('register paused by paused', async () => {
    const { runners_token: token } = (await owned().get(`/projects/${project.id}`)).body;
    const registered = await app().anonymous.post('/runners', { token, active: false });
    expect(registered.status).toBe(201);
    expect(registered.headers.get('deprecation')).toMatch(/^@\d+$/);
    const at = `/runners/${registered.body.id}`;
    expect((await owned().get(at)).body).toMatchObject({ active: false, paused: true });
    expect(await app().anonymous.post(v5('/runners'), { token, active: false })).toMatchObject({
      status: 400,
      body: { error: 'active was removed in version 5 of the API: use `paused`' },
    });
    const again = await app().anonymous.post(v5('/runners'), { token, paused: true });
    expect((await owned().get(v5(`/runners/${again.body.id}`))).body).toMatchObject({ paused: true });
    for (const { body } of [registered, again]) await owned().delete(`/runners/${body.id}`);
  });
});
