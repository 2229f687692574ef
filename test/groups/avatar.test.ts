import { describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import { png } from '../support/pictures.ts';

const app = useApp();

const form = (bytes: Buffer | string): FormData => {
  const data = new FormData();
  data.set('avatar', new Blob([typeof bytes === 'string' ? bytes : new Uint8Array(bytes)]), 'group.html');
  return data;
};

const fetchAs = async (user: TestUser | null, url: string) =>
  fetch(url, { headers: user ? { 'private-token': await app().tokenOf(user) } : {} });

describe('the avatar of a group', () => {
  it('is set by Owners, shown to everyone who can see the group, and removed', async () => {
    const [owner, member, stranger] = [await app().make.user(), await app().make.user(), await app().make.user()];
    const group = await app().make.group({}, owner);
    await app().make.groupMember(group, member, 40);
    const put = (user: TestUser, body: FormData) => app().as(user).put(`/groups/${group.id}`, body);
    expect((await put(member, form(png()))).status).toBe(403);
    expect((await put(stranger, form(png()))).status).toBe(404);
    const { status, body } = await put(owner, form(png()));
    expect(status).toBe(200);
    expect(body.avatar_url).toMatch(new RegExp(`/uploads/-/system/group/avatar/${group.id}/[\\w-]+\\.png$`));
    const shown = await fetchAs(member, body.avatar_url);
    expect(shown.status).toBe(200);
    expect(shown.headers.get('content-type')).toBe('image/png');
    expect(shown.headers.get('x-content-type-options')).toBe('nosniff');
    expect(shown.headers.get('content-security-policy')).toContain('sandbox');
    expect((await fetchAs(stranger, body.avatar_url)).status).toBe(404);
    expect((await fetchAs(null, body.avatar_url)).status).toBe(404);
    expect((await app().as(owner).get(`/groups/${group.id}`)).body.avatar_url).toBe(body.avatar_url);
    const changed = await put(owner, form(png({ width: 9, height: 9 })));
    expect(changed.body.avatar_url).not.toBe(body.avatar_url);
    expect((await fetchAs(owner, body.avatar_url)).status).toBe(404);
    const empty = new FormData();
    empty.set('avatar', '');
    expect((await put(owner, empty)).body.avatar_url).toBeNull();
  });

  it.each(['<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>', 'x'.repeat(300 * 1024)])(
    'is a picture of at most 200 KiB',
    async (content) => {
      const owner = await app().make.user();
      const group = await app().make.group({}, owner);
      expect((await app().as(owner).put(`/groups/${group.id}`, form(content))).status).toBe(400);
      expect((await app().as(owner).get(`/groups/${group.id}`)).body.avatar_url).toBeNull();
    },
  );

  it('can be set together with a new group', async () => {
    const owner = await app().make.user();
    const body = form(png());
    body.set('name', 'Pictured');
    body.set('path', 'pictured');
    const made = await app().as(owner).post('/groups', body);
    expect(made.status).toBe(201);
    expect((await fetchAs(owner, made.body.avatar_url)).status).toBe(200);
  });
});
