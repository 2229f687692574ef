import { describe, expect, it } from 'vitest';
import { makePerson, signedIn, Visitor } from '../pages/visitor.ts';
import { PASSWORD, type TestUser, useApp } from '../support/app.ts';
import { linkTo, mailsTo } from '../support/mails.ts';

const app = useApp();
const db = () => app().hub.services.db;
const LINK = '/users/password/edit?reset_password_token=';
const NEW = 'another-horse-battery';

const accountOf = (user: TestUser) =>
  db().selectFrom('users').selectAll().where('id', '=', user.id).executeTakeFirstOrThrow();

const ask = async (email: string, ip?: string) => {
  const visitor = new Visitor(app().url, ip === undefined ? {} : { 'x-forwarded-for': ip });
  await visitor.get('/users/password/new');
  return { visitor, page: await visitor.submit('/users/password/new', { email }) };
};

const set = (visitor: Visitor, password: string, again = password) =>
  visitor.submit('/users/password/edit', { password, password_confirmation: again });

describe('a forgotten password', () => {
  it('is reset once with the link from a mail, and all sessions end', async () => {
    const { user, visitor: before } = await signedIn(app());
    const token = await app().tokenOf(user);
    await ask(`${user.username}@EXAMPLE.com`);
    const link = await linkTo(app(), `${user.username}@example.com`, LINK);

    const visitor = new Visitor(app().url);
    expect(await visitor.get(link)).toMatchObject({ status: 200 });
    expect(visitor.page.headers.get('referrer-policy')).toBe('no-referrer');
    // Opening the link again is allowed, because mail scanners do so.
    await visitor.get(link);
    expect(await set(visitor, NEW)).toMatchObject({ status: 303, location: '/users/sign_in' });

    expect(await before.get('/')).toMatchObject({ status: 303, location: '/users/sign_in?return_to=%2F' });
    expect(await visitor.get('/')).toMatchObject({ status: 303 });
    expect((await new Visitor(app().url).signIn(user.username)).status).toBe(422);
    expect((await new Visitor(app().url).signIn(user.username, NEW)).status).toBe(303);
    // Tokens keep working, because they belong to tools that do not know the password.
    const { status } = await app().anonymous.get('/user', { 'private-token': token });
    expect(status).toBe(200);

    expect(await visitor.get(link)).toMatchObject({ status: 404 });
    await app().settle();
    const event = await db()
      .selectFrom('events')
      .selectAll()
      .where('kind', '=', 'password.changed')
      .where('subject_id', '=', user.id)
      .executeTakeFirstOrThrow();
    expect(event).toMatchObject({ user_ids: [user.id], payload: { user_id: user.id, change_required: false } });
    const sentMails = await mailsTo(app(), `${user.username}@example.com`);
    expect(sentMails.at(-1)?.subject).toBe('Your password was changed');
  });

  it('can be reset to unlock an account after wrong passwords', async () => {
    const user = await makePerson(app(), { failed_attempts: 20, locked_until: '2999-01-01T00:00:00Z' });
    await ask(`${user.username}@example.com`);
    const visitor = new Visitor(app().url);
    await visitor.get(await linkTo(app(), `${user.username}@example.com`, LINK));
    await set(visitor, NEW);
    expect(await accountOf(user)).toMatchObject({ failed_attempts: 0, locked_until: null });
  });

  it('refuses a new one that is too short, too long or not confirmed, and the link stays valid', async () => {
    const user = await makePerson(app());
    const { password_hash: hash } = await accountOf(user);
    await ask(`${user.username}@example.com`);
    const visitor = new Visitor(app().url);
    await visitor.get(await linkTo(app(), `${user.username}@example.com`, LINK));
    for (const [password, again] of [['short'], ['x'.repeat(129)], [NEW, 'something-else'], ['']] as const) {
      expect(await set(visitor, password, again)).toMatchObject({ status: 422 });
    }
    expect((await accountOf(user)).password_hash).toBe(hash);
    expect(await set(visitor, NEW)).toMatchObject({ status: 303 });
  });

  it('is reset by only one of two concurrent uses of the link', async () => {
    const user = await makePerson(app());
    await ask(`${user.username}@example.com`);
    const link = await linkTo(app(), `${user.username}@example.com`, LINK);
    const statuses = await Promise.all(
      [NEW, `${NEW}-2`].map(async (password) => {
        const visitor = new Visitor(app().url);
        await visitor.get(link);
        return (await set(visitor, password)).status;
      }),
    );
    expect(statuses.sort()).toEqual([303, 404]);
  });

  it('has links that expire: after a time, after a later link, and when the address changes', async () => {
    const user = await makePerson(app());
    const email = `${user.username}@example.com`;
    await ask(email);
    const first = await linkTo(app(), email, LINK);
    await ask(email);
    const second = await linkTo(app(), email, LINK);
    expect(await new Visitor(app().url).get(first)).toMatchObject({ status: 404 });
    expect(await new Visitor(app().url).get(second)).toMatchObject({ status: 200 });
    const { rows } = await app().hub.services.pool.query(
      'select extract(epoch from expires_at - now()) / 3600 as hours from mail_tokens where user_id = $1',
      [user.id],
    );
    expect(Number(rows[0].hours)).toBeCloseTo(6, 1);
    await db()
      .updateTable('mail_tokens')
      .set({ expires_at: '2020-01-01T00:00:00Z' })
      .where('user_id', '=', user.id)
      .execute();
    expect(await new Visitor(app().url).get(second)).toMatchObject({ status: 404 });

    await ask(email);
    const third = await linkTo(app(), email, LINK);
    const other = `other-${user.username}@example.org`;
    await app().as(app().root).post(`/users/${user.id}/emails`, { email: other, skip_confirmation: true });
    await app().as(app().root).put(`/users/${user.id}`, { email: other });
    expect(await new Visitor(app().url).get(third)).toMatchObject({ status: 404 });
  });

  it("stores only the digest of a link's token", async () => {
    const user = await makePerson(app());
    const email = `${user.username}@example.com`;
    await ask(email);
    const link = await linkTo(app(), email, LINK);
    const rows = await db().selectFrom('mail_tokens').selectAll().where('user_id', '=', user.id).execute();
    expect(JSON.stringify(rows)).not.toContain(link.slice(LINK.length));
    expect(link.slice(LINK.length)).toMatch(/^[\w-]{32}$/);
  });
});

describe('a request for the link', () => {
  it('gets the same answer, at the same cost, for known, unknown and unconfirmed addresses', async () => {
    const user = await makePerson(app());
    const unconfirmed = await makePerson(app(), { confirmed_at: null });
    const blocked = await makePerson(app(), { state: 'blocked' });
    const addresses = [
      `${user.username}@example.com`,
      `nobody-${user.username}@example.com`,
      `${unconfirmed.username}@example.com`,
      `${blocked.username}@example.com`,
      'not an address',
    ];
    const answers = new Set<string>();
    for (const email of addresses) {
      const { visitor, page } = await ask(email);
      answers.add(JSON.stringify([page.status, page.location, (await visitor.follow()).text]));
    }
    expect(answers.size).toBe(1);
    const counts = await Promise.all(addresses.map(async (each) => (await mailsTo(app(), each)).length));
    expect(counts).toEqual([1, 0, 0, 0, 0]);
  });

  it('sends the mail to the stored primary address, whichever confirmed address was given', async () => {
    const user = await makePerson(app());
    const [known, waiting] = [`known-${user.username}@example.org`, `waiting-${user.username}@example.org`];
    await app().as(app().root).post(`/users/${user.id}/emails`, { email: known, skip_confirmation: true });
    await db().insertInto('emails').values({ user_id: user.id, email: waiting }).execute();
    await ask(known.toUpperCase());
    await ask(waiting);
    const links = (await mailsTo(app(), `${user.username}@example.com`)).filter(({ text }) =>
      text.includes('edit?reset_'),
    );
    expect(links).toHaveLength(1);
    expect(await mailsTo(app(), known)).toEqual([]);
    expect(await mailsTo(app(), waiting)).toEqual([]);
  });

  it('accepts one address as text, and no list or object (CVE-2023-7028)', async () => {
    const user = await makePerson(app());
    const email = `${user.username}@example.com`;
    const attacker = `attacker-${user.username}@example.org`;
    const visitor = new Visitor(app().url);
    for (const fields of [
      { 'email[]': [email, attacker] },
      { email: [email, attacker] },
      { 'email[0]': email, 'email[1]': attacker },
      { 'email[to]': email, 'email[cc]': attacker },
    ]) {
      await visitor.get('/users/password/new');
      expect((await visitor.post('/users/password/new', fields)).status).toBe(400);
    }
    for (const joined of [`${email},${attacker}`, `${email} ${attacker}`, `${email}\r\nBcc: ${attacker}`]) {
      await visitor.get('/users/password/new');
      await visitor.submit('/users/password/new', { email: joined });
    }
    expect(await mailsTo(app(), email)).toEqual([]);
    expect(await mailsTo(app(), attacker)).toEqual([]);
  });

  it('is refused without a CSRF token', async () => {
    const user = await makePerson(app());
    const visitor = new Visitor(app().url);
    const email = `${user.username}@example.com`;
    expect((await visitor.post('/users/password/new', { email, authenticity_token: 'guess' })).status).toBe(422);
    expect(await mailsTo(app(), email)).toEqual([]);
  });

  it('is limited per address and hour, whether the address is known or not', async () => {
    const user = await makePerson(app());
    for (const email of [`${user.username}@example.com`, `nobody-${user.username}@example.com`]) {
      const statuses: number[] = [];
      for (let n = 0; n < 6; n++) statuses.push((await ask(email)).page.status);
      expect(statuses).toEqual([303, 303, 303, 303, 303, 429]);
    }
    const { page } = await ask(`${user.username}@EXAMPLE.com`);
    expect(Number(page.headers.get('retry-after'))).toBeGreaterThan(0);
    expect(await mailsTo(app(), `${user.username}@example.com`)).toHaveLength(5);
  });
});

describe('a guessed link', () => {
  it('finds nothing, and costs no password hashing', async () => {
    const visitor = new Visitor(app().url);
    await visitor.get('/users/sign_in');
    for (const token of ['', 'guess', 'x'.repeat(32), "' or 1=1 --"]) {
      const sent = { reset_password_token: token, password: PASSWORD, password_confirmation: PASSWORD };
      expect((await visitor.post('/users/password/edit', sent)).status).toBe(404);
      await visitor.get('/users/sign_in');
    }
  });

  it('cannot set a password with a link that confirms an address', async () => {
    const user = await makePerson(app());
    const email = `mine-${user.username}@example.org`;
    await app().as(user).post('/user/emails', { email });
    const link = await linkTo(app(), email, '/users/confirmation?confirmation_token=');
    const token = link.slice(link.indexOf('=') + 1);
    expect((await new Visitor(app().url).get(LINK + token)).status).toBe(404);
  });
});
