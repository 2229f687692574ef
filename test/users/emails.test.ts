import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { answerMailRequest } from '#domains/users/mail-requests.ts';
import { signedIn, Visitor } from '../pages/visitor.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { linkTo, mailsTo } from '../support/mails.ts';

const app = useApp();
const db = () => app().hub.services.db;
const CONFIRMATION = '/users/confirmation?confirmation_token=';

let count = 0;
const address = () => `address${++count}-${process.pid}@example.org`;

const accountOf = (user: TestUser) =>
  db().selectFrom('users').selectAll().where('id', '=', user.id).executeTakeFirstOrThrow();
const addressesOf = async (user: TestUser) =>
  (await db().selectFrom('emails').select('email').where('user_id', '=', user.id).execute()).map(({ email }) => email);
const kindsAbout = async (user: TestUser) => {
  await app().settle();
  const rows = await db()
    .selectFrom('events')
    .select(['kind', 'user_ids', 'payload'])
    .where('subject_type', '=', 'User')
    .where('subject_id', '=', user.id)
    .orderBy('id')
    .execute();
  return rows;
};

/** Opens the link in the last mail to the address, and presses the button. */
const confirm = async (email: string) => {
  const visitor = new Visitor(app().url);
  await visitor.get(await linkTo(app(), email, CONFIRMATION));
  return visitor.submit('/users/confirmation');
};

describe('adding an address', () => {
  it('mails it a link, and confirms it when the button on that page is pressed', async () => {
    const user = await app().make.user();
    const email = address();
    const added = await app().as(user).post('/user/emails', { email });
    expect(added).toMatchObject({ status: 201, body: { email, confirmed_at: null } });

    const link = await linkTo(app(), email, CONFIRMATION);
    const visitor = new Visitor(app().url);
    expect((await visitor.get(link)).text).toContain(email);
    // Mail scanners open links, so opening one must not confirm the address, however often.
    await visitor.get(link);
    expect((await app().as(user).get(`/user/emails/${added.body.id}`)).body.confirmed_at).toBeNull();
    expect(await visitor.submit('/users/confirmation')).toMatchObject({ status: 303, location: '/users/sign_in' });
    expect((await app().as(user).get(`/user/emails/${added.body.id}`)).body.confirmed_at).toMatch(/^20.*Z$/);

    expect(await visitor.get(link)).toMatchObject({ status: 404 });
    const kinds = await kindsAbout(user);
    expect(kinds.map(({ kind }) => kind)).toEqual(['email.added', 'email.confirmed']);
    expect(kinds[0]).toMatchObject({ user_ids: [user.id], payload: { user_id: user.id, email } });
    expect(JSON.stringify(kinds)).not.toContain(link.slice(CONFIRMATION.length));
  });

  it('notifies the primary address of the account', async () => {
    const user = await app().make.user();
    const email = address();
    const { body } = await app().as(user).post('/user/emails', { email });
    await confirm(email);
    await app().as(user).delete(`/user/emails/${body.id}`);
    const sentMails = await mailsTo(app(), `${user.username}@example.com`);
    expect(sentMails.map(({ subject }) => subject)).toEqual([
      'An address was added to your account',
      'An address of your account was confirmed',
      'An address was removed from your account',
    ]);
  });

  it('refuses anything but a single valid address, and stores nothing', async () => {
    const user = await app().make.user();
    const as = app().as(user);
    for (const email of [
      '',
      'nobody',
      'a@b@c',
      'a@b, c@d',
      'a@b.c\r\nBcc: x@y.z',
      '<a@b.c>',
      `${'a'.repeat(260)}@b.c`,
    ]) {
      expect(await as.post('/user/emails', { email })).toMatchObject({ status: 400 });
    }
    for (const email of [['a@example.org', 'b@example.org'], { to: 'a@example.org' }]) {
      expect(await as.post('/user/emails', { email })).toMatchObject({
        status: 400,
        body: { error: 'email is invalid (allowed: a string)' },
      });
    }
    expect(await as.post('/user/emails', {})).toMatchObject({ status: 400, body: { error: 'email is missing' } });
    expect(await addressesOf(user)).toEqual([]);
  });

  it('refuses the same address twice, in any case', async () => {
    const user = await app().make.user();
    const email = address();
    await app().as(user).post('/user/emails', { email });
    for (const again of [email.toUpperCase(), `${user.username}@example.com`]) {
      expect(await app().as(user).post('/user/emails', { email: again })).toMatchObject({
        status: 400,
        body: { message: { email: ['has already been taken'] } },
      });
    }
  });

  it('does not reveal that an address belongs to another user, but cannot be confirmed then', async () => {
    const [owner, other] = [await app().make.user(), await app().make.user()];
    const taken = `${owner.username}@example.com`;
    expect(await app().as(other).post('/user/emails', { email: taken })).toMatchObject({ status: 201 });
    expect(await confirm(taken)).toMatchObject({ status: 422 });
    expect(await db().selectFrom('emails').selectAll().where('user_id', '=', other.id).execute()).toMatchObject([
      { confirmed_at: null },
    ]);
    expect((await accountOf(owner)).email).toBe(taken);
    expect(await app().as(app().root).post(`/users/${other.id}/emails`, { email: taken })).toMatchObject({
      status: 400,
    });
  });

  it('lets only one of several users confirm the same address', async () => {
    const users = [await app().make.user(), await app().make.user()];
    const email = address();
    const links: string[] = [];
    for (const user of users) {
      await app().as(user).post('/user/emails', { email });
      links.push(await linkTo(app(), email, CONFIRMATION));
    }
    const outcomes = await Promise.all(
      links.map(async (link) => {
        const visitor = new Visitor(app().url);
        await visitor.get(link);
        return (await visitor.submit('/users/confirmation')).status;
      }),
    );
    expect(outcomes.sort()).toEqual([303, 422]);
  });

  it('limits the confirmation mails of an account per hour', async () => {
    const user = await app().make.user();
    const statuses: number[] = [];
    for (let n = 0; n < 22; n++) {
      const { status, headers } = await app().as(user).post('/user/emails', { email: address() });
      statuses.push(status);
      if (status === 429) expect(Number(headers.get('retry-after'))).toBeGreaterThan(0);
    }
    expect(statuses.filter((status) => status === 201)).toHaveLength(20);
    expect(statuses.slice(20)).toEqual([429, 429]);
  });
});

describe('an address over REST and GraphQL', () => {
  it('is visible only to its user', async () => {
    const [user, stranger] = [await app().make.user(), await app().make.user()];
    const { body } = await app().as(user).post('/user/emails', { email: address() });
    expect(await app().anonymous.get('/user/emails')).toMatchObject({ status: 401 });
    expect(await app().anonymous.post('/user/emails', { email: address() })).toMatchObject({ status: 401 });
    expect((await app().as(stranger).get('/user/emails')).body).toEqual([]);
    expect(await app().as(stranger).get(`/user/emails/${body.id}`)).toMatchObject({
      status: 404,
      body: { message: '404 Email Not Found' },
    });
    expect(await app().as(stranger).delete(`/user/emails/${body.id}`)).toMatchObject({ status: 404 });
    for (const [method, path] of [
      ['GET', `/users/${user.id}/emails`],
      ['POST', `/users/${user.id}/emails`],
      ['DELETE', `/users/${user.id}/emails/${body.id}`],
    ] as const) {
      const sent = method === 'POST' ? { email: address() } : undefined;
      expect(await app().as(stranger).request(method, path, sent)).toMatchObject({ status: 403 });
      // These routes are for administrators, so even the user is refused.
      expect(await app().as(user).request(method, path, sent)).toMatchObject({ status: 403 });
    }
    const gid = `gid://gitlab/Email/${body.id}`;
    const answer = await app()
      .as(stranger)
      .graphql(
        `mutation($id: EmailID!) { userEmailRemove(input: { id: $id }) { errors } userEmailResendConfirmation(input: { id: $id }) { errors } }`,
        { id: gid },
      );
    expect(answer.errors?.map(({ path }) => path)).toEqual([['userEmailRemove'], ['userEmailResendConfirmation']]);
    expect(JSON.stringify(answer)).toContain('NOT_FOUND');
    const seen = await app()
      .as(stranger)
      .graphql(`{ user(username: "${user.username}") { emails { nodes { email } } } }`);
    expect(seen.data.user.emails).toBeNull();
    expect(await addressesOf(user)).toHaveLength(1);
  });

  it('is managed by administrators for other users, with or without a mail', async () => {
    const user = await app().make.user();
    const root = app().as(app().root);
    const [confirmed, waiting] = [address(), address()];
    const first = await root.post(`/users/${user.id}/emails`, { email: confirmed, skip_confirmation: true });
    expect(first).toMatchObject({ status: 201, body: { email: confirmed, confirmed_at: expect.any(String) } });
    await root.post(`/users/${user.id}/emails`, { email: waiting });
    expect(await mailsTo(app(), confirmed)).toEqual([]);
    expect(await mailsTo(app(), waiting)).toHaveLength(1);
    const list = await root.get(`/users/${user.id}/emails?per_page=1`);
    expect(list.body).toMatchObject([{ email: confirmed }]);
    expect(list.headers.get('x-total')).toBe('2');
    expect(await root.delete(`/users/${user.id}/emails/${first.body.id}`)).toMatchObject({ status: 204 });
    expect(await root.delete(`/users/${user.id}/emails/${first.body.id}`)).toMatchObject({ status: 404 });
    expect(await root.get('/users/999999999/emails')).toMatchObject({
      status: 404,
      body: { message: '404 User Not Found' },
    });
    expect(await addressesOf(user)).toEqual([waiting]);
  });

  it('is not added to an internal account', async () => {
    const ghost = await app().make.user({ user_type: 'ghost' });
    const { status } = await app()
      .as(app().root)
      .post(`/users/${ghost.id}/emails`, { email: address(), skip_confirmation: true });
    expect(status).toBe(403);
    expect(await addressesOf(ghost)).toEqual([]);
  });

  it('follows the same rules in GraphQL, where only administrators skip the confirmation', async () => {
    const user = await app().make.user();
    const email = address();
    const add = `mutation($email: String!, $skip: Boolean) {
      userEmailAdd(input: { email: $email, skipConfirmation: $skip }) { email { id email confirmedAt } errors } }`;
    const refused = await app().as(user).graphql(add, { email, skip: true });
    expect(JSON.stringify(refused)).toContain('FORBIDDEN');
    expect(await addressesOf(user)).toEqual([]);

    const { data } = await app().as(user).graphql(add, { email });
    expect(data.userEmailAdd).toMatchObject({ email: { email, confirmedAt: null }, errors: [] });
    // Two mails in the queue may be sent out of order, and only the link of the later one is valid.
    await app().settle();
    await app()
      .as(user)
      .graphql(`mutation($id: EmailID!) { userEmailResendConfirmation(input: { id: $id }) { errors } }`, {
        id: data.userEmailAdd.email.id,
      });
    expect(await mailsTo(app(), email)).toHaveLength(2);
    await confirm(email);
    const mine = await app().as(user).graphql('{ currentUser { emails { nodes { email confirmedAt } } } }');
    expect(mine.data.currentUser.emails.nodes).toEqual([{ email, confirmedAt: expect.any(String) }]);
    await app().as(user).graphql(`mutation($id: EmailID!) { userEmailRemove(input: { id: $id }) { errors } }`, {
      id: data.userEmailAdd.email.id,
    });
    expect(await addressesOf(user)).toEqual([]);
  });

  it('can be read but not changed with a read-only token', async () => {
    const user = await app().make.user();
    const reader = app().as(user, ['read_user']);
    expect(await reader.get('/user/emails')).toMatchObject({ status: 200 });
    expect(await reader.post('/user/emails', { email: address() })).toMatchObject({ status: 403 });
  });
});

describe('a removed address', () => {
  it('is also removed from the profile and from commits, and its links expire', async () => {
    const user = await app().make.user();
    const email = address();
    const { body } = await app().as(user).post('/user/emails', { email });
    const link = await linkTo(app(), email, CONFIRMATION);
    await sql`update users set public_email = ${email.toUpperCase()}, commit_email = ${email} where id = ${user.id}`.execute(
      db(),
    );
    expect(await app().as(user).delete(`/user/emails/${body.id}`)).toMatchObject({ status: 204 });
    expect(await accountOf(user)).toMatchObject({ public_email: '', commit_email: null });
    expect(await new Visitor(app().url).get(link)).toMatchObject({ status: 404 });
  });
});

describe('a new primary address', () => {
  const change = (user: TestUser, changes: Record<string, unknown>) =>
    app().as(app().root).put(`/users/${user.id}`, changes);

  it('must have been added to the account', async () => {
    const user = await app().make.user();
    expect(await change(user, { email: address() })).toMatchObject({ status: 404 });
    expect((await accountOf(user)).email).toBe(`${user.username}@example.com`);
  });

  it('applies at once if it is confirmed, and the old one stays with the account', async () => {
    const user = await app().make.user();
    const email = address();
    await app().as(app().root).post(`/users/${user.id}/emails`, { email, skip_confirmation: true });
    expect(await change(user, { email })).toMatchObject({ status: 200, body: { email } });
    expect(await addressesOf(user)).toEqual([`${user.username}@example.com`]);
    const sentMails = await mailsTo(app(), `${user.username}@example.com`);
    expect(sentMails.map(({ subject }) => subject)).toContain('The address of your account was changed');
  });

  it('waits for its confirmation otherwise', async () => {
    const user = await app().make.user();
    const email = address();
    await app().as(app().root).post(`/users/${user.id}/emails`, { email });
    expect(await change(user, { email })).toMatchObject({
      status: 200,
      body: { email: `${user.username}@example.com` },
    });
    await confirm(email);
    expect(await accountOf(user)).toMatchObject({ email, unconfirmed_email: null });
  });

  it('applies at once if an administrator skips the confirmation', async () => {
    const user = await app().make.user();
    const email = address();
    await app().as(app().root).post(`/users/${user.id}/emails`, { email });
    expect(await change(user, { email, skip_reconfirmation: true })).toMatchObject({ status: 200, body: { email } });
  });
});

describe('a request for another link', () => {
  it('gets the same answer for known and unknown addresses, and mails only unconfirmed ones', async () => {
    const waiting = await app().make.user({ confirmed_at: null });
    const known = await app().make.user();
    const answers: unknown[] = [];
    for (const email of [`${waiting.username}@EXAMPLE.com`, `${known.username}@example.com`, address()]) {
      const visitor = new Visitor(app().url);
      await visitor.get('/users/confirmation/new');
      const { status, location } = await visitor.submit('/users/confirmation/new', { email });
      answers.push([status, location, (await visitor.follow()).text]);
    }
    expect(new Set(answers.map((each) => JSON.stringify(each))).size).toBe(1);
    expect(await mailsTo(app(), `${waiting.username}@example.com`)).toHaveLength(1);
    expect(await mailsTo(app(), `${known.username}@example.com`)).toEqual([]);
    expect(await confirm(`${waiting.username}@example.com`)).toMatchObject({ status: 303 });
    expect((await accountOf(waiting)).confirmed_at).not.toBeNull();
  });

  it('runs as a job that may repeat, and the link of the later mail is valid', async () => {
    const user = await app().make.user({ confirmed_at: null });
    const email = `${user.username}@example.com`;
    const run = () =>
      answerMailRequest.run(app().context(), { purpose: 'confirm_email', email }, { attempt: 1, lastAttempt: false });
    await run();
    const first = await linkTo(app(), email, CONFIRMATION);
    await run();
    expect(await new Visitor(app().url).get(first)).toMatchObject({ status: 404 });
    expect(await confirm(email)).toMatchObject({ status: 303 });
  });
});

describe('the page of addresses', () => {
  it("adds and removes the user's own addresses, and resends their mails", async () => {
    const { visitor, user } = await signedIn(app());
    const other = await app().make.user();
    const { body: foreign } = await app().as(other).post('/user/emails', { email: address() });
    const email = address();
    await visitor.get('/-/user_settings/emails');
    expect(await visitor.submit('/-/user_settings/emails', { email: 'nobody' })).toMatchObject({ status: 422 });
    await visitor.submit('/-/user_settings/emails', { email });
    expect((await visitor.follow()).text).toContain(`${email} waits to be confirmed`);
    const row = await db().selectFrom('emails').select('id').where('user_id', '=', user.id).executeTakeFirstOrThrow();
    await app().settle();
    await visitor.submit(`/-/user_settings/emails/${row.id}/resend`);
    expect(await mailsTo(app(), email)).toHaveLength(2);
    await visitor.get('/-/user_settings/emails');
    expect(await visitor.post(`/-/user_settings/emails/${foreign.id}/remove`)).toMatchObject({ status: 404 });
    expect(await addressesOf(other)).toHaveLength(1);
    await visitor.get('/-/user_settings/emails');
    await visitor.submit(`/-/user_settings/emails/${row.id}/remove`);
    expect(await addressesOf(user)).toEqual([]);
  });
});
