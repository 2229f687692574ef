import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Visitor } from '../pages/visitor.ts';
import { PASSWORD, useApp } from '../support/app.ts';
import { linkTo, mailsTo } from '../support/mails.ts';

const app = useApp();
const LINK = '/users/confirmation?confirmation_token=';

let count = 0;
const newAccount = async (attributes: Record<string, unknown> = {}) => {
  const username = `confirming-${++count}`;
  const email = `${username}@example.org`;
  const sent = { username, email, name: username, password: PASSWORD, ...attributes };
  const { status, body } = await app().as(app().root).post('/users', sent);
  expect(status).toBe(201);
  return { id: Number(body.id), username, email };
};

const confirmedAt = async (id: number) => (await app().as(app().root).get(`/users/${id}`)).body.confirmed_at;

describe('a new account', () => {
  beforeAll(async () => {
    await app().as(app().root).put('/application/settings', { send_user_confirmation_email: true });
  });
  afterAll(async () => {
    await app().as(app().root).put('/application/settings', { send_user_confirmation_email: false });
  });

  it('confirms its address with the button on the linked page, and can then sign in', async () => {
    const { id, username, email } = await newAccount();
    expect(await confirmedAt(id)).toBeNull();
    const refused = await new Visitor(app().url).signIn(username);
    expect(refused.status).toBe(403);
    expect(refused.text).toContain('confirm your email address');

    const visitor = new Visitor(app().url);
    await visitor.get(await linkTo(app(), email, LINK));
    expect(await confirmedAt(id)).toBeNull();
    await visitor.submit('/users/confirmation');
    expect((await visitor.follow()).text).toContain(`The address ${email} is confirmed.`);
    expect(await confirmedAt(id)).toMatch(/Z$/);
    expect((await new Visitor(app().url).signIn(username)).status).toBe(303);
  });

  it('counts as confirmed if an administrator says so, and gets no mail', async () => {
    const { id, username, email } = await newAccount({ skip_confirmation: true });
    expect(await confirmedAt(id)).toMatch(/Z$/);
    expect(await mailsTo(app(), email)).toEqual([]);
    expect((await new Visitor(app().url).signIn(username)).status).toBe(303);
  });

  it('gets a link to set a password if it was created without one', async () => {
    const { username, email } = await newAccount({
      password: undefined,
      reset_password: true,
      skip_confirmation: true,
    });
    const visitor = new Visitor(app().url);
    await visitor.get(await linkTo(app(), email, '/users/password/edit?reset_password_token='));
    const fields = { password: 'chosen-by-myself', password_confirmation: 'chosen-by-myself' };
    expect(await visitor.submit('/users/password/edit', fields)).toMatchObject({ status: 303 });
    expect((await new Visitor(app().url).signIn(username, 'chosen-by-myself')).status).toBe(303);
  });
});

describe('the confirmation page', () => {
  it('does nothing for an invalid link, and offers another mail', async () => {
    const visitor = new Visitor(app().url);
    for (const token of ['', 'guess', 'x'.repeat(32), '%00']) {
      const page = await visitor.get(LINK + token);
      expect([400, 404]).toContain(page.status);
    }
    await visitor.get('/users/sign_in');
    expect(await visitor.post('/users/confirmation', { confirmation_token: 'guess' })).toMatchObject({ status: 404 });
    expect(visitor.page.html).toContain('/users/confirmation/new');
  });

  it('refuses requests from another site, and confirms nothing by GET', async () => {
    const { id, email } = await newAccount();
    const link = await linkTo(app(), email, LINK);
    const visitor = new Visitor(app().url);
    const token = link.slice(LINK.length);
    const forged = await visitor.post('/users/confirmation', { confirmation_token: token, authenticity_token: 'x' });
    expect(forged.status).toBe(422);
    expect(await confirmedAt(id)).toBeNull();
  });

  it('expires after three days', async () => {
    const { id, email } = await newAccount();
    const link = await linkTo(app(), email, LINK);
    const { pool } = app().hub.services;
    const { rows } = await pool.query(
      'select extract(epoch from expires_at - now()) / 3600 as hours from mail_tokens where user_id = $1',
      [id],
    );
    expect(Number(rows[0].hours)).toBeCloseTo(72, 1);
    await pool.query("update mail_tokens set expires_at = now() - interval '1 second' where user_id = $1", [id]);
    expect((await new Visitor(app().url).get(link)).status).toBe(404);
  });

  it('limits how often one address can ask for a mail', async () => {
    const { email } = await newAccount();
    const statuses: number[] = [];
    for (let n = 0; n < 6; n++) {
      const visitor = new Visitor(app().url);
      await visitor.get('/users/confirmation/new');
      statuses.push((await visitor.submit('/users/confirmation/new', { email })).status);
    }
    expect(statuses).toEqual([303, 303, 303, 303, 303, 429]);
  });
});
