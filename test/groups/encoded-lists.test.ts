import { expect, it } from 'vitest';
import { toEncodedGroups } from '#domains/groups/record.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { useApp } from '../support/app.ts';

const app = useApp();

const make = async (name: string) => {
  const [owner, stranger] = [await app().make.user(), await app().make.user()];
  const created = await app().as(owner).post('/groups', { name, path: name, visibility: 'public' });
  expect(created.status).toBe(201);
  const seen = async (client: ReturnType<ReturnType<typeof app>['as']>, more = '') => {
    const answer = await client.get(`/groups?all_available=true&search=${created.body.path}${more}`);
    expect(answer.status).toBe(200);
    return answer.body[0];
  };
  return { owner, stranger, id: Number(created.body.id), seen };
};

it('shows each caller of a list only what they may see, independent of earlier callers', async () => {
  const { owner, stranger, id, seen } = await make('written-for-each');
  await app().as(owner).put(`/groups/${id}`, { ip_restriction_ranges: '127.0.0.0/8' });
  for (let round = 0; round < 2; round++) {
    expect(await seen(app().as(owner))).toMatchObject({ id, ip_restriction_ranges: '127.0.0.0/8' });
    expect(await seen(app().as(stranger))).not.toHaveProperty('ip_restriction_ranges');
    expect(await seen(app().as(app().root), '&statistics=true')).toHaveProperty('statistics');
    expect(await seen(app().as(app().root), '&with_custom_attributes=true')).toHaveProperty('custom_attributes', []);
    expect(await seen(app().as(app().root))).not.toHaveProperty('statistics');
    expect(await seen(app().as(stranger), '&statistics=true&with_custom_attributes=true')).not.toHaveProperty(
      'statistics',
    );
  }
  const alone = await app().as(owner).get(`/groups/${id}?with_projects=false`);
  expect(alone.body).toMatchObject(await seen(app().as(owner)));
});

it('never shows a stale group in a list', async () => {
  const { owner, stranger, id, seen } = await make('written-anew');
  for (const description of ['first', 'second "quoted"', 'third ü']) {
    await app().as(owner).put(`/groups/${id}`, { description });
    expect(await seen(app().as(stranger))).toHaveProperty('description', description);
    expect(await seen(app().as(owner))).toHaveProperty('description', description);
  }
  const parent = await app().as(owner).post('/groups', { name: 'Above', path: 'written-above' });
  const child = await app().as(owner).post('/groups', { name: 'Below', path: 'below', parent_id: parent.body.id });
  const below = async () => (await app().as(owner).get(`/groups/${parent.body.id}/subgroups`)).body[0];
  expect(await below()).toMatchObject({ id: child.body.id, full_path: 'written-above/below' });
  await app().as(owner).put(`/groups/${parent.body.id}`, { path: 'written-moved', name: 'Moved' });
  expect(await below()).toMatchObject({ full_path: 'written-moved/below', full_name: 'Moved / Below' });
});

it('writes a record again after the inherited branch protection changed', async () => {
  const { owner, id } = await make('written-by-settings');
  const ctx = app().context(owner);
  const row = await ctx.db.selectFrom('namespaces').selectAll().where('id', '=', id).executeTakeFirstOrThrow();
  const group = { ...row, access_level: 0, remembered: row };
  const [first] = await toEncodedGroups(ctx, [group]);
  expect((await toEncodedGroups(ctx, [group]))[0]).toBe(first);
  const settings = await getSettings(ctx);
  const before = settings.default_branch_protection_defaults;
  const changed = { ...before, allow_force_push: !before.allow_force_push };
  const client = app().as(app().root);
  await client.put('/application/settings', { default_branch_protection_defaults: changed });
  try {
    const [second] = await toEncodedGroups(ctx, [group]);
    expect(second?.read().default_branch_protection_defaults.allow_force_push).toBe(changed.allow_force_push);
  } finally {
    await client.put('/application/settings', { default_branch_protection_defaults: before });
  }
});

it('supports ETags and HEAD requests for lists', async () => {
  const { owner } = await make('written-tagged');
  const path = '/groups?search=written-tagged';
  const answer = await app().as(owner).get(path);
  const etag = String(answer.headers.get('etag'));
  expect(etag).toMatch(/^W\/"/);
  expect((await app().as(owner).get(path, { 'if-none-match': etag })).status).toBe(304);
  const head = await app().as(owner).request('HEAD', path);
  expect(head.headers.get('etag')).toBe(etag);
  expect(head.headers.get('content-length')).toBe(answer.headers.get('content-length'));
});
