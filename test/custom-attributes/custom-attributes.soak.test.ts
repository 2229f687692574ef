import { describe, expect, it } from 'vitest';
import { setCustomAttribute } from '#domains/custom-attributes/commands.ts';
import { useApp } from '../support/app.ts';

const app = useApp();
const admin = () => app().as(app().root);

const KINDS = ['users', 'groups', 'projects'] as const;
type Kind = (typeof KINDS)[number];

/** Creates a record, and an owner who can change everything else about it. */
const make = async (kind: Kind) => {
  const owner = await app().make.user();
  if (kind === 'users') return { id: owner.id, owner };
  const { id } = kind === 'groups' ? await app().make.group({}, owner) : await app().make.project({}, owner);
  return { id, owner };
};

const ids = (body: readonly { readonly id: number }[]) => body.map(({ id }) => id);

describe.each(KINDS)('custom attributes of %s', (kind) => {
  it('are set, changed, read and removed', async () => {
    const { id } = await make(kind);
    const path = `/${kind}/${id}/custom_attributes`;
    expect((await admin().get(path)).body).toEqual([]);
    const set = await admin().put(`${path}/cost.centre`, { value: 'north' });
    expect([set.status, set.body]).toEqual([200, { key: 'cost.centre', value: 'north' }]);
    await admin().put(`${path}/cost.centre`, { value: 'south' });
    await admin().put(`${path}/a%2Fb`, { value: 7 });
    expect((await admin().get(path)).body).toEqual([
      { key: 'a/b', value: '7' },
      { key: 'cost.centre', value: 'south' },
    ]);
    expect((await admin().get(`${path}/cost.centre`)).body).toEqual({ key: 'cost.centre', value: 'south' });
    expect((await admin().delete(`${path}/cost.centre`)).status).toBe(204);
    const gone = await admin().get(`${path}/cost.centre`);
    expect([gone.status, gone.body]).toEqual([404, { message: '404 Custom Attribute Not Found' }]);
    expect((await admin().delete(`${path}/cost.centre`)).status).toBe(404);
    expect((await admin().get(path)).body).toEqual([{ key: 'a/b', value: '7' }]);
  });

  it('emit events for administrators only, without the values', async () => {
    const { id, owner } = await make(kind);
    await admin().put(`/${kind}/${id}/custom_attributes/secret`, { value: 'the value' });
    await admin().delete(`/${kind}/${id}/custom_attributes/secret`);
    const events = await app()
      .hub.services.db.selectFrom('events')
      .select(['kind', 'payload', 'user_ids', 'namespace_ids', 'project_id'])
      .where('subject_id', '=', id)
      .where('kind', 'like', 'custom_attribute.%')
      .orderBy('id')
      .execute();
    const none = { user_ids: [], namespace_ids: [], project_id: null, payload: { key: 'secret' } };
    expect(events.slice(-2)).toMatchObject([
      { ...none, kind: 'custom_attribute.set' },
      { ...none, kind: 'custom_attribute.deleted' },
    ]);
    expect(owner.id).toBeGreaterThan(0);
  });

  it('refuse invalid keys and values', async () => {
    const { id } = await make(kind);
    const path = `/${kind}/${id}/custom_attributes`;
    expect((await admin().put(`${path}/k`, {})).body).toEqual({ error: 'value is missing' });
    expect((await admin().put(`${path}/k`, { value: ['a'] })).body).toEqual({
      error: 'value is invalid (allowed: a string)',
    });
    expect((await admin().put(`${path}/k`, { value: ' ' })).body).toEqual({ message: { value: ["can't be blank"] } });
    expect((await admin().put(`${path}/k`, { value: 'x'.repeat(256) })).status).toBe(400);
    expect((await admin().put(`${path}/${'k'.repeat(256)}`, { value: 'x' })).status).toBe(400);
    expect((await admin().put(`${path}/k`, { value: 'a\0b' })).status).toBe(400);
    expect((await admin().get(path)).body).toEqual([]);
    expect((await admin().get(`/${kind}/999999999/custom_attributes`)).status).toBe(404);
    expect((await admin().put(`/${kind}/999999999/custom_attributes/k`, { value: 'x' })).status).toBe(404);
  });

  it('accept the longest allowed key and value', async () => {
    const { id } = await make(kind);
    // The text is random enough that the index cannot compress it.
    const long = Array.from({ length: 255 }, (_, i) => String.fromCodePoint(0x4e00 + ((i * 7919) % 20_000))).join('');
    const path = `/${kind}/${id}/custom_attributes/${encodeURIComponent(long)}`;
    expect((await admin().put(path, { value: long })).body).toEqual({ key: long, value: long });
  });

  it('are available to administrators only, and not to owners', async () => {
    const { id, owner } = await make(kind);
    const path = `/${kind}/${id}/custom_attributes`;
    await admin().put(`${path}/k`, { value: 'v' });
    const stranger = await app().make.user();
    for (const client of [app().as(owner), app().as(stranger)]) {
      expect((await client.get(path)).status).toBe(403);
      expect((await client.get(`${path}/k`)).status).toBe(403);
      expect((await client.put(`${path}/k`, { value: 'mine' })).status).toBe(403);
      expect((await client.delete(`${path}/k`)).status).toBe(403);
    }
    expect((await app().anonymous.get(path)).status).toBe(401);
    expect((await app().anonymous.put(`${path}/k`, { value: 'mine' })).status).toBe(401);
    const own = await app().as(owner).get(`/${kind}/${id}?with_custom_attributes=true`);
    expect(own.body).toMatchObject({ id });
    expect(own.body).not.toHaveProperty('custom_attributes');
    expect((await admin().get(path)).body).toEqual([{ key: 'k', value: 'v' }]);
  });

  it('appear in records only when an administrator asks for them', async () => {
    const { id, owner } = await make(kind);
    await admin().put(`/${kind}/${id}/custom_attributes/b`, { value: '2' });
    await admin().put(`/${kind}/${id}/custom_attributes/a`, { value: '1' });
    const attributes = [
      { key: 'a', value: '1' },
      { key: 'b', value: '2' },
    ];
    const one = await admin().get(`/${kind}/${id}?with_custom_attributes=true`);
    expect(one.body).toMatchObject({ id, custom_attributes: attributes });
    expect((await admin().get(`/${kind}/${id}`)).body).not.toHaveProperty('custom_attributes');
    const query = `/${kind}?per_page=100&order_by=id&sort=desc`;
    const find = (body: readonly { readonly id: number }[]) => body.find((each) => each.id === id);
    expect(find((await admin().get(`${query}&with_custom_attributes=true`)).body)).toMatchObject({
      custom_attributes: attributes,
    });
    expect(find((await admin().get(query)).body)).not.toHaveProperty('custom_attributes');
    const byOwner = (await app().as(owner).get(`${query}&with_custom_attributes=true`)).body;
    expect(find(byOwner)).not.toHaveProperty('custom_attributes');
  });

  it('filter lists by all given attributes, for administrators only', async () => {
    const { id, owner } = await make(kind);
    const other = await make(kind);
    const mark = `mark-${kind}`;
    await admin().put(`/${kind}/${id}/custom_attributes/mark`, { value: mark });
    await admin().put(`/${kind}/${id}/custom_attributes/size`, { value: '5' });
    await admin().put(`/${kind}/${other.id}/custom_attributes/mark`, { value: mark });
    const found = async (query: string, client = admin()) => ids((await client.get(`/${kind}?${query}`)).body);
    expect((await found(`custom_attributes[mark]=${mark}`)).toSorted()).toEqual([id, other.id].toSorted());
    expect(await found(`custom_attributes[mark]=${mark}&custom_attributes[size]=5`)).toEqual([id]);
    expect(await found(`custom_attributes[mark]=${mark}&custom_attributes[size]=6`)).toEqual([]);
    expect(await found('custom_attributes[mark]=other')).toEqual([]);
    // The same statement works with other values.
    expect(await found('custom_attributes[size]=5')).toEqual([id]);
    // The filter is an unknown parameter for other callers. It must not reveal attributes.
    const stranger = app().as(owner);
    expect(await found('custom_attributes[mark]=other', stranger)).toEqual(await found('', stranger));
    expect((await admin().get(`/${kind}?custom_attributes[mark][x]=1`)).status).toBe(400);
    expect((await admin().get(`/${kind}?custom_attributes=1`)).status).toBe(400);
  });

  it('are set over GraphQL, on records that exist', async () => {
    const { id } = await make(kind);
    const type = { users: 'User', groups: 'Group', projects: 'Project' }[kind];
    const set = (ownerId: number) =>
      admin().graphql(
        'mutation ($i: CustomAttributeSetInput!) { customAttributeSet(input: $i) { customAttribute { key value } errors } }',
        { i: { ownerId: `gid://gitlab/${type}/${ownerId}`, key: 'k', value: 'v' } },
      );
    expect((await set(id)).data.customAttributeSet).toEqual({ customAttribute: { key: 'k', value: 'v' }, errors: [] });
    expect((await admin().get(`/${kind}/${id}/custom_attributes`)).body).toEqual([{ key: 'k', value: 'v' }]);
    expect((await set(999_999_999)).errors).toHaveLength(1);
  });

  it('are not set on a record that was deleted meanwhile', async () => {
    const set = setCustomAttribute(app().context(), kind, 999_999_999, { key: 'k', value: 'v' });
    await expect(set).rejects.toMatchObject({ code: 'not_found' });
  });

  it('are deleted with their record', async () => {
    const { id } = await make(kind);
    await admin().put(`/${kind}/${id}/custom_attributes/k`, { value: 'v' });
    const { status } = await admin().delete(`/${kind}/${id}`);
    expect([202, 204]).toContain(status);
    expect((await admin().get(`/${kind}/${id}/custom_attributes`)).status).toBe(404);
  });
});
