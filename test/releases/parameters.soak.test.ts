import { beforeAll, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';

// The parameters of releases and their links that the other files leave out.

const app = useApp();
let client: Client;
let path: string;

beforeAll(async () => {
  const owner = await app().make.user();
  client = app().as(owner);
  const project = await app().make.project({ initialize_with_readme: true, default_branch: 'main' }, owner);
  path = `/projects/${project.id}`;
});

const pathsOfLinks = async () =>
  (await app().hub.services.db.selectFrom('release_links').select(['name', 'filepath']).orderBy('name').execute()).map(
    ({ name, filepath }) => [name, filepath],
  );

it('links keep their path, under both names', async () => {
  const link = (name: string, more: Record<string, string>) => ({ name, url: `https://example.com/${name}`, ...more });
  const made = await client.post(`${path}/releases`, {
    tag_name: 'v1',
    ref: 'main',
    assets: { links: [link('a', { direct_asset_path: '/a' }), link('b', { filepath: '/b' })] },
  });
  expect(made.status).toBe(201);
  const links = `${path}/releases/v1/assets/links`;
  const third = await client.post(links, link('c', { filepath: '/c' }));
  expect(third.status).toBe(201);
  const fourth = await client.post(links, link('d', { direct_asset_path: '/d' }));
  expect(await pathsOfLinks()).toEqual([
    ['a', '/a'],
    ['b', '/b'],
    ['c', '/c'],
    ['d', '/d'],
  ]);
  expect((await client.put(`${links}/${third.body.id}`, { filepath: '/c/changed' })).status).toBe(200);
  expect((await client.put(`${links}/${fourth.body.id}`, { direct_asset_path: '/d/changed' })).status).toBe(200);
  expect((await pathsOfLinks()).slice(2)).toEqual([
    ['c', '/c/changed'],
    ['d', '/d/changed'],
  ]);
  expect((await client.put(`${links}/${third.body.id}`, { filepath: 'no/slash' })).status).toBe(400);
});

it('links have a type and can be renamed', async () => {
  const release = { tag_name: 'v3', ref: 'main', description: 'Before' };
  expect((await client.post(`${path}/releases`, release)).status).toBe(201);
  const links = `${path}/releases/v3/assets/links`;
  const runbook = { name: 'How to', url: 'https://example.com/how-to', link_type: 'runbook' };
  const made = await client.post(links, runbook);
  expect([made.status, made.body]).toEqual([201, expect.objectContaining(runbook)]);
  expect((await client.put(`${links}/${made.body.id}`, { name: 'Runbook' })).body).toMatchObject({
    ...runbook,
    name: 'Runbook',
  });
  expect((await client.post(links, { ...runbook, link_type: 'video' })).status).toBe(400);
  expect((await client.put(`${path}/releases/v3`, { description: 'After' })).body).toMatchObject({
    description: 'After',
    assets: { links: [{ name: 'Runbook' }] },
  });
});

it('descriptions are shown as HTML on request, and milestones are set by id', async () => {
  const { body: milestone } = await client.post(`${path}/milestones`, { title: 'By id' });
  const release = { tag_name: 'v2', ref: 'main', description: 'Some <b>text' };
  expect((await client.post(`${path}/releases`, release)).status).toBe(201);
  for (const at of ['/releases?order_by=created_at', '/releases/permalink/latest?', '/releases/v2?']) {
    const first = ({ body }: Awaited<ReturnType<Client['get']>>) => (Array.isArray(body) ? body[0] : body);
    expect(first(await client.get(`${path}${at}`))).not.toHaveProperty('description_html');
    const shown = first(await client.get(`${path}${at}&include_html_description=true`));
    expect(shown).toMatchObject({ tag_name: 'v2', description_html: expect.stringContaining('<b>text</b>') });
  }
  const changed = await client.put(`${path}/releases/v2`, { milestone_ids: [milestone.id] });
  expect(changed.body.milestones).toMatchObject([{ id: milestone.id, title: 'By id' }]);
  expect((await client.put(`${path}/releases/v2`, { milestone_ids: [] })).body.milestones).toEqual([]);
});
