import { Readable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import { storeAvatar } from '#domains/users/avatar.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { gif, jpeg, png, webp } from '../support/pictures.ts';
import { until } from '../support/until.ts';

const app = useApp();

const KIB = 1024;

const form = (bytes: Buffer | string, filename = 'me.png', type = 'image/png'): FormData => {
  const data = new FormData();
  data.set('avatar', new Blob([typeof bytes === 'string' ? bytes : new Uint8Array(bytes)], { type }), filename);
  return data;
};

const upload = (user: TestUser, bytes: Buffer | string, filename?: string, type?: string) =>
  app()
    .as(user)
    .put('/user/avatar', form(bytes, filename, type));

const fetchUrl = (url: string) => fetch(url, { redirect: 'manual' });

const keyOf = async (user: TestUser) =>
  (
    await app()
      .hub.services.db.selectFrom('users')
      .select('avatar_key')
      .where('id', '=', user.id)
      .executeTakeFirstOrThrow()
  ).avatar_key;

const files = async (): Promise<string[]> => {
  const keys: string[] = [];
  for await (const { key } of app().hub.services.storage.list('avatars/')) keys.push(key);
  return keys;
};

describe('the avatar of the current user', () => {
  const size = { width: 192, height: 192 };
  it.each([
    ['png', png(size), 'image/png'],
    ['jpg', jpeg(size), 'image/jpeg'],
    ['gif', gif(size), 'image/gif'],
    ['webp', webp(size), 'image/webp'],
  ])('is a %s by its content, whatever its file name, and is served as that type', async (extension, bytes, type) => {
    const user = await app().make.user();
    const { status, body } = await upload(user, bytes, '../../me.html', 'text/html');
    expect(status).toBe(200);
    expect(Object.keys(body)).toEqual(['avatar_url']);
    expect(body.avatar_url.startsWith(`${app().url}/uploads/-/system/user/avatar/${user.id}/`)).toBe(true);
    expect(body.avatar_url.endsWith(`.${extension}`)).toBe(true);
    const answer = await fetchUrl(body.avatar_url);
    expect(answer.status).toBe(200);
    expect(Buffer.from(await answer.arrayBuffer()).equals(bytes)).toBe(true);
    expect(Object.fromEntries(answer.headers)).toMatchObject({
      'content-type': type,
      'content-length': String(bytes.length),
      'x-content-type-options': 'nosniff',
      'content-security-policy': "default-src 'none'; sandbox",
      'cache-control': 'public, max-age=31536000, immutable',
    });
    expect((await app().as(user).get('/user')).body.avatar_url).toBe(body.avatar_url);
    expect((await app().anonymous.get(`/users?username=${user.username}`)).body[0].avatar_url).toBe(body.avatar_url);
    const { data } = await app().as(user).graphql('{ currentUser { avatarUrl } }');
    expect(data.currentUser.avatarUrl).toBe(body.avatar_url);
  });

  it('may have exactly 200 KiB at most', async () => {
    const user = await app().make.user();
    const base = png(size, 1).length - 1;
    const largest = png(size, 200 * KIB - base);
    expect(largest.length).toBe(200 * KIB);
    expect((await upload(user, largest)).status).toBe(200);
    const kept = await keyOf(user);
    for (const length of [200 * KIB + 1, 3_000 * KIB]) {
      const { status, body } = await upload(user, png(size, length - base));
      expect([status, body]).toEqual([400, { message: { avatar: ['is too big (should be at most 200 KiB)'] } }]);
    }
    expect(await keyOf(user)).toBe(kept);
  });

  it.each([
    ['an SVG', '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>'],
    ['a page', '<!doctype html><script>alert(1)</script>'],
    ['nothing', ''],
    ['a BMP', Buffer.concat([Buffer.from('BM'), Buffer.alloc(60)])],
    ['a PDF', '%PDF-1.7'],
    ['the beginning of a PNG', png().subarray(0, 12)],
    ['the beginning of a JPEG', Buffer.from('ffd8ffe0', 'hex')],
    ['a PNG of a billion pixels', png({ width: 32_000, height: 32_000 })],
    ['a GIF that is too wide', gif({ width: 4_097, height: 1 })],
    ['a PNG without pixels', png({ width: 0, height: 0 })],
    ['a PNG with negative sizes', png({ width: 0xffffffff, height: 0xffffffff })],
  ])('cannot be %s', async (_name, bytes) => {
    const user = await app().make.user();
    const before = (await files()).length;
    const { status, body } = await upload(user, bytes);
    expect(status).toBe(400);
    expect(body.message.avatar).toHaveLength(1);
    expect(await keyOf(user)).toBeNull();
    expect((await files()).length).toBe(before);
  });

  it('is required, as a file', async () => {
    const user = await app().make.user();
    expect((await app().as(user).put('/user/avatar')).body).toEqual({ error: 'avatar is missing' });
    expect((await app().as(user).put('/user/avatar', { avatar: '/etc/passwd' })).body).toEqual({
      error: 'avatar is invalid',
    });
    expect(
      (
        await app()
          .as(user)
          .put('/user/avatar', { avatar: { key: 'avatars/x.png' } })
      ).status,
    ).toBe(400);
  });

  it('is replaced and removed together with its file', async () => {
    const user = await app().make.user();
    const first = (await upload(user, png())).body.avatar_url;
    const second = (await upload(user, png())).body.avatar_url;
    expect(second).not.toBe(first);
    await app().settle();
    expect((await fetchUrl(first)).status).toBe(404);
    const key = await keyOf(user);
    const taken = await app().as(user).put('/user/avatar', { avatar: '' });
    expect([taken.status, taken.body]).toEqual([200, { avatar_url: null }]);
    await app().settle();
    expect((await fetchUrl(second)).status).toBe(404);
    expect(await files()).not.toContain(key);
    const events = await app()
      .hub.services.db.selectFrom('events')
      .select(['payload', 'user_ids'])
      .where('kind', '=', 'user.updated')
      .where('subject_id', '=', user.id)
      .orderBy('id')
      .execute();
    expect(events.at(-1)).toMatchObject({
      user_ids: [user.id],
      payload: { changes: { avatar_url: { previous: second, current: null } } },
    });
  });

  it('is deleted with the account', async () => {
    const user = await app().make.user();
    const url = (await upload(user, png())).body.avatar_url;
    const key = await keyOf(user);
    await app().as(app().root).delete(`/users/${user.id}`);
    expect((await fetchUrl(url)).status).toBe(404);
    await until('the file is gone', async () => {
      await app().settle();
      return !(await files()).includes(key ?? '');
    });
  });

  it('is deleted from storage if no account claims it', async () => {
    const ctx = app().context();
    const bytes = png();
    const key = await storeAvatar(ctx, { size: bytes.length, open: async () => Readable.from([bytes]) });
    expect(await files()).toContain(key);
    const { db, pool } = app().hub.services;
    const { rows } = await pool.query(
      `update graphile_worker._private_jobs j set run_at = now() from graphile_worker._private_tasks t
       where t.id = j.task_id and t.identifier = 'avatars.drop_unclaimed' returning j.id`,
    );
    expect(rows.length).toBeGreaterThan(0);
    await until('the file is gone', async () => {
      await app().settle();
      return !(await files()).includes(key);
    });
    // Claimed files stay.
    const claimed = await db.selectFrom('users').select('avatar_key').where('avatar_key', 'is not', null).execute();
    expect(await files()).toEqual(expect.arrayContaining(claimed.map((user) => user.avatar_key)));
  });

  it('can be set only for the caller', async () => {
    expect((await app().anonymous.put('/user/avatar', form(png()))).status).toBe(401);
    const user = await app().make.user();
    expect((await app().as(user, ['read_user']).put('/user/avatar', form(png()))).status).toBe(403);
    expect(await keyOf(user)).toBeNull();
  });

  it('is served only under its own name', async () => {
    const user = await app().make.user();
    const other = await app().make.user();
    const url: string = (await upload(user, png())).body.avatar_url;
    const name = url.slice(url.lastIndexOf('/') + 1);
    const base = `${app().url}/uploads/-/system/user/avatar`;
    for (const path of [
      `${base}/${other.id}/${name}`,
      `${base}/${user.id}/other.png`,
      `${base}/${user.id}/..%2F${name}`,
      `${base}/${user.id}/${name}%00`,
      `${base}/${user.id}/%2e%2e%2f%2e%2e%2fmail.log`,
      `${base}/x/${name}`,
    ]) {
      const { status } = await fetchUrl(path);
      expect([400, 404], path).toContain(status);
    }
    expect((await fetch(url, { method: 'HEAD' })).status).toBe(200);
  });
});

describe('an avatar set by an administrator', () => {
  it('is accepted for a new user, and in a change', async () => {
    const admin = app().as(app().root);
    const data = form(png());
    for (const [name, value] of Object.entries({
      email: 'pictured@example.com',
      name: 'Pictured',
      username: 'pictured',
      password: 'a-good-password',
    })) {
      data.set(name, value);
    }
    const made = await admin.post('/users', data);
    expect(made.status).toBe(201);
    expect((await fetchUrl(made.body.avatar_url)).status).toBe(200);
    const changed = await admin.put(`/users/${made.body.id}`, form(gif({ width: 9, height: 9 })));
    expect(changed.body.avatar_url).toMatch(/\.gif$/);
    expect(changed.body.name).toBe('Pictured');
    const kept = await admin.put(`/users/${made.body.id}`, { bio: 'x' });
    expect(kept.body.avatar_url).toBe(changed.body.avatar_url);
    const gone = await admin.put(`/users/${made.body.id}`, { avatar: '' });
    expect(gone.body.avatar_url).toBeNull();
    const svg = await admin.put(`/users/${made.body.id}`, form('<svg/>'));
    expect([svg.status, svg.body]).toEqual([404, { message: 'Avatar is not a PNG, JPEG, GIF or WebP picture' }]);
  });

  it('creates no account if it is invalid', async () => {
    const data = form('<svg/>');
    for (const [name, value] of Object.entries({
      email: 'unpictured@example.com',
      name: 'Unpictured',
      username: 'unpictured',
      password: 'a-good-password',
    })) {
      data.set(name, value);
    }
    const admin = app().as(app().root);
    expect((await admin.post('/users', data)).status).toBe(400);
    expect((await admin.get('/users?username=unpictured')).body).toEqual([]);
  });
});
