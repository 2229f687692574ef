import { describe, expect, it } from 'vitest';
import { scopeInWords } from '#domains/tokens/scopes.ts';
import { signedIn, Visitor } from '../pages/visitor.ts';
import { useApp } from '../support/app.ts';

const app = useApp();
const PATH = '/-/user_settings/personal_access_tokens';

const tokensOf = (userId: number) =>
  app().hub.services.db.selectFrom('personal_access_tokens').selectAll().where('user_id', '=', userId).execute();

const valueIn = (html: string): string => /value="(glpat-[^"]+)"/.exec(html)?.[1] ?? '';

const statusOf = async (token: string): Promise<number> =>
  (await app().anonymous.get('/user', { 'private-token': token })).status;

const soon = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);

/** Creates a token on the page and returns its value. */
const made = async (visitor: Visitor, name = 'Laptop') => {
  await visitor.get(PATH);
  const { status, html } = await visitor.submit(PATH, { name, expires_at: soon(10), 'scopes[]': ['read_user'] });
  expect(status).toBe(200);
  return valueIn(html);
};

describe('the page of personal access tokens', () => {
  it('creates a working token, and shows it once', async () => {
    const { visitor, user } = await signedIn(app());
    expect((await visitor.get(PATH)).text).toContain('You have none.');
    expect(visitor.page.text).toContain(scopeInWords('api'));
    // Only administrators can use these scopes.
    expect(visitor.page.text).not.toContain(scopeInWords('sudo'));
    const token = await made(visitor, 'Laptop <script>alert(1)</script>');
    expect(visitor.page.html).not.toContain('<script');
    expect(await statusOf(token)).toBe(200);
    const [row] = await tokensOf(user.id);
    expect(row).toMatchObject({ scopes: ['read_user'], expires_at: soon(10) });
    const list = await visitor.get(PATH);
    expect(list.text).toContain('Laptop <script>alert(1)</script>');
    expect(list.html).not.toContain(token);
  });

  it('rotates a token, and the old value is refused', async () => {
    const { visitor, user } = await signedIn(app());
    const old = await made(visitor);
    const [row] = await tokensOf(user.id);
    const rotated = await visitor.submit(`${PATH}/${row?.id}/rotate`);
    const token = valueIn(rotated.html);
    expect([await statusOf(token), await statusOf(old)]).toEqual([200, 401]);
  });

  it('revokes a token', async () => {
    const { visitor, user } = await signedIn(app());
    const token = await made(visitor);
    const [row] = await tokensOf(user.id);
    expect(await visitor.submit(`${PATH}/${row?.id}/revoke`)).toMatchObject({ status: 303, location: PATH });
    expect((await visitor.follow()).text).toContain('Laptop was revoked.');
    expect(visitor.page.text).toContain('You have none.');
    expect(await statusOf(token)).toBe(401);
  });

  it('shows the form again with the problems', async () => {
    const { visitor, user } = await signedIn(app());
    await visitor.get(PATH);
    const refused = await visitor.submit(PATH, { name: '', description: 'kept', expires_at: soon(-1) });
    expect(refused.status).toBe(422);
    expect(refused.text).toContain("Name can't be blank");
    expect(refused.text).toContain('Expires on cannot be a date in the past');
    expect(refused.text).toContain("Scopes can't be blank");
    expect(refused.html).toContain('value="kept"');
    await visitor.get(PATH);
    const sudo = await visitor.submit(PATH, { name: 'x', 'scopes[]': ['sudo'] });
    expect(sudo.status).toBe(422);
    await visitor.get(PATH);
    expect((await visitor.submit(PATH, { name: 'x', expires_at: 'soon', 'scopes[]': ['api'] })).status).toBe(400);
    expect(await tokensOf(user.id)).toEqual([]);
  });

  it('neither shows nor changes the tokens of other users', async () => {
    const { visitor: owner, user } = await signedIn(app());
    const token = await made(owner, 'Of the owner');
    const [row] = await tokensOf(user.id);
    const { visitor } = await signedIn(app());
    expect((await visitor.get(PATH)).text).not.toContain('Of the owner');
    const authenticity_token = visitor.csrfToken ?? '';
    for (const verb of ['revoke', 'rotate']) {
      expect((await visitor.post(`${PATH}/${row?.id}/${verb}`, { authenticity_token })).status).toBe(404);
    }
    expect(await statusOf(token)).toBe(200);
    expect(await new Visitor(app().url).get(PATH)).toMatchObject({
      status: 303,
      location: `/users/sign_in?return_to=${encodeURIComponent(PATH)}`,
    });
  });

  it('refuses a form that was not sent to this browser', async () => {
    const { visitor, user } = await signedIn(app());
    const { visitor: attacker } = await signedIn(app());
    await attacker.get(PATH);
    const fields = { name: 'x', 'scopes[]': ['api'], authenticity_token: attacker.csrfToken ?? '' };
    expect((await visitor.post(PATH, fields)).status).toBe(422);
    expect(await tokensOf(user.id)).toEqual([]);
  });
});
