import { afterEach, beforeAll, describe, expect, it } from 'vitest';
import { settingsSchema } from '#domains/settings/registry.ts';
import { stillValid } from '#domains/tokens/still-valid.ts';
import { csrfToken } from '#platform/caller/csrf.ts';
import { type Actor, anonymous } from '#platform/context.ts';
import { makePerson, signedIn, Visitor } from '../pages/visitor.ts';
import { PASSWORD, type TestUser, useApp } from '../support/app.ts';
import { runningJob } from '../support/running-job.ts';
import { countStatements } from '../support/statements.ts';

const app = useApp();
const admin = () => app().as(app().root);
const db = () => app().hub.services.db;
const TERMS = '/-/users/terms';

/** As on every other page. */
const POLICY =
  "default-src 'none'; style-src 'self'; img-src 'self' data:; form-action 'self'; frame-ancestors 'none'; base-uri 'none'";

const set = async (settings: Record<string, unknown>) =>
  expect(await admin().put('/application/settings', settings)).toMatchObject({ status: 200 });
const enforce = (terms = 'Be kind.\nDo not spam.') => set({ enforce_terms: true, terms });
const { terms, enforce_terms } = settingsSchema.parse({});
afterEach(() => set({ enforce_terms, terms }));

/** The hidden version in the form, accepted with it. */
const accept = async (visitor: Visitor, returnTo = '') => {
  await visitor.get(`${TERMS}?return_to=${encodeURIComponent(returnTo)}`);
  return visitor.submit(TERMS);
};
const acceptedBy = ({ id }: TestUser) =>
  db()
    .selectFrom('users')
    .select(['accepted_terms', 'terms_accepted_at'])
    .where('id', '=', id)
    .executeTakeFirstOrThrow();

const git = (username: string, password: string, path: string) =>
  fetch(`${app().url}/${path}.git/info/refs?service=git-upload-pack`, {
    headers: { authorization: `Basic ${Buffer.from(`${username}:${password}`).toString('base64')}` },
  });

describe('the terms', () => {
  it('are rendered as Markdown, sanitised, and the same for everyone', async () => {
    const { visitor, user } = await signedIn(app());
    await enforce(
      [
        '## Rules',
        `Be **kind** to @${user.username}. <a href="javascript:alert(1)">Law</a>, [charter](https://example.org/charter)`,
        '<form action="https://evil.example/"><button>Accept</button></form>',
        '<b onclick="alert(1)" style="position: fixed">bold</b><script>alert(1)</script>',
      ].join('\n\n'),
    );
    for (const reader of [visitor, new Visitor(app().url)]) {
      const { html, headers } = await reader.get(TERMS);
      const [, said = ''] = /<div class="said">([\s\S]*?)<\/div>/.exec(html) ?? [];
      expect(said).toMatch(/<h2 [^>]*>Rules/);
      expect(said).toContain(`Be <strong>kind</strong> to @${user.username}.`);
      expect(said).toMatch(/<a href="https:\/\/example.org\/charter" [^>]*rel="nofollow noreferrer noopener"/);
      expect(said).toContain('<b>bold</b>');
      expect(html).not.toMatch(/javascript:|evil|onclick|\sstyle=|<script/);
      expect(headers.get('content-security-policy')).toBe(POLICY);
    }
  });

  it('come before every other page, until they are accepted', async () => {
    const { visitor, user } = await signedIn(app());
    expect((await visitor.get(TERMS)).status).toBe(404);
    await enforce();
    const page = await visitor.get('/-/user_settings/active_sessions?page=1');
    expect(page.location).toBe(`${TERMS}?return_to=${encodeURIComponent('/-/user_settings/active_sessions?page=1')}`);
    expect((await visitor.follow()).text).toContain('Be kind.');
    // A form of another page does nothing.
    const posted = await visitor.post('/-/user_settings/emails', { email: 'x@example.org' });
    expect([posted.status, posted.location]).toEqual([303, TERMS]);
    expect(await db().selectFrom('emails').select('id').where('user_id', '=', user.id).execute()).toEqual([]);

    await visitor.get(`${TERMS}?return_to=/-/user_settings/password`);
    expect((await visitor.submit(TERMS)).location).toBe('/-/user_settings/password');
    expect((await visitor.follow()).status).toBe(200);
    expect((await visitor.get(TERMS)).html).not.toContain(`action="${TERMS}"`);
    const { accepted_terms: version, terms_accepted_at } = await acceptedBy(user);
    expect(terms_accepted_at).not.toBeNull();
    const stored = await db()
      .selectFrom('terms_versions')
      .selectAll()
      .where('version', '=', version)
      .executeTakeFirst();
    expect(stored?.text).toBe('Be kind.\nDo not spam.');
    const events = await db()
      .selectFrom('events')
      .select(['actor_id', 'payload'])
      .where('kind', '=', 'terms.accepted')
      .where('subject_id', '=', user.id)
      .execute();
    expect(events).toEqual([{ actor_id: user.id, payload: { user_id: user.id, version } }]);
    const { data } = await app().as(user).graphql('{ currentUser { termsAcceptedAt } }');
    expect(data.currentUser.termsAcceptedAt).toMatch(/Z$/);
  });

  it('are asked again when their text changes, and a stale form accepts nothing', async () => {
    await enforce();
    const { visitor, user } = await signedIn(app());
    await accept(visitor);
    expect((await visitor.get('/')).status).toBe(200);
    await enforce('Be kinder.');
    await visitor.get('/');
    await visitor.follow();
    await enforce('Be kindest.');
    const stale = await visitor.submit(TERMS);
    expect([stale.status, stale.text]).toEqual([
      409,
      expect.stringContaining('The terms have changed. Read them again.'),
    ]);
    expect(stale.text).toContain('Be kindest.');
    expect((await app().as(user).get('/user')).status).toBe(403);
    expect((await visitor.submit(TERMS)).location).toBe('/');
    expect((await app().as(user).get('/user')).status).toBe(200);
    await set({ enforce_terms: false });
    expect((await visitor.get('/')).status).toBe(200);
  });

  it('are asked of administrators, and sign out those who decline', async () => {
    await enforce();
    const visitor = new Visitor(app().url);
    await visitor.signIn('root');
    await visitor.get('/');
    expect(visitor.page.location).toBe(`${TERMS}?return_to=%2F`);
    await visitor.follow();
    await visitor.submit('/users/sign_out');
    expect((await visitor.get('/')).location).toContain('/users/sign_in');
    expect((await visitor.get(TERMS)).text).toContain('Do not spam.');
    expect(visitor.page.html).not.toContain('<form');
  });

  it('lead nowhere but to this hub', async () => {
    await enforce();
    const { visitor, user } = await signedIn(app());
    for (const target of ['https://evil.example/', '//evil.example', '/\\evil.example', 'javascript:alert(1)']) {
      await db().updateTable('users').set({ accepted_terms: null }).where('id', '=', user.id).execute();
      expect((await accept(visitor, target)).location).toBe('/');
    }
    await db().updateTable('users').set({ accepted_terms: null }).where('id', '=', user.id).execute();
    await visitor.get(TERMS);
    expect((await visitor.post(TERMS, { version: 'guess' })).status).toBe(409);
    expect((await visitor.post(TERMS, { authenticity_token: 'forged' })).status).toBe(422);
    expect((await acceptedBy(user)).accepted_terms).toBeNull();
  });
});

describe('who has not accepted the terms', () => {
  let user: TestUser;
  let path: string;
  beforeAll(async () => {
    user = await makePerson(app());
    const project = await app().make.project({ initialize_with_readme: true }, user);
    path = project.path_with_namespace;
  });
  /** The answers to a token, a session and git with both kinds of password. */
  const statuses = async () => {
    const cookie = `millrace_session=${session}`;
    const csrf = csrfToken(app().hub.services.secretKey, session);
    const token = await app().tokenOf(user);
    return [
      (await app().as(user).get('/user')).status,
      (await app().as(user).request('POST', '/api/graphql', { query: '{ currentUser { id } }' })).status,
      (await app().anonymous.get('/user', { cookie })).status,
      (
        await app().anonymous.request(
          'POST',
          '/api/graphql',
          { query: '{ currentUser { id } }' },
          { cookie, 'x-csrf-token': csrf },
        )
      ).status,
      (await git('oauth2', token, path)).status,
      (await git(user.username, PASSWORD, path)).status,
    ];
  };
  let session: string;

  it('gets 403 with the place to accept them from REST, GraphQL and git, by token, session and password', async () => {
    const visitor = new Visitor(app().url);
    await visitor.signIn(user.username);
    session = visitor.session ?? '';
    const before = await statuses();
    expect(before).toEqual([200, 200, 200, 200, 200, 200]);
    await enforce();
    const after = await statuses();
    expect(after).toEqual([403, 403, 403, 403, 403, 403]);
    const said = `You must accept the terms of service first. Open ${app().url}${TERMS} in a browser.`;
    expect((await app().as(user).get('/user')).body).toEqual({ message: `403 Forbidden - ${said}` });
    expect(await (await git('oauth2', await app().tokenOf(user), path)).text()).toContain(said);
    expect((await app().anonymous.get('/projects')).status).toBe(200);
    await accept(visitor);
    expect(await statuses()).toEqual(before);
  });

  it('costs a request by session no statement', async () => {
    const { visitor } = await signedIn(app());
    const cookie = `millrace_session=${visitor.session}`;
    const statements = () =>
      countStatements(app(), async () => expect((await app().anonymous.get('/user', { cookie })).status).toBe(200));
    const before = await statements();
    await enforce();
    await accept(visitor);
    expect(await statements()).toBe(before);
  });

  it('loses subscriptions too', async () => {
    const stranger = await app().make.user();
    const { id } = await db()
      .insertInto('personal_access_tokens')
      .values({ user_id: stranger.id, name: 'x', scopes: ['api'], digest: Buffer.from(`terms-${stranger.id}`) })
      .returning('id')
      .executeTakeFirstOrThrow();
    const actor: Actor = {
      ...anonymous,
      userId: stranger.id,
      credential: { kind: 'token', id, holderId: stranger.id, originId: null },
    };
    const valid = async () => (await stillValid(app().hub.services, [actor])).has(0);
    expect(await valid()).toBe(true);
    await enforce();
    expect(await valid()).toBe(false);
  });

  it('does not hinder administrators, bots, impersonation, sudo and jobs', async () => {
    const other = await app().make.user();
    const impersonation = await admin().post(`/users/${other.id}/impersonation_tokens`, {
      name: 'x',
      scopes: ['api'],
      expires_at: new Date(Date.now() + 30 * 86_400_000).toISOString().slice(0, 10),
    });
    const project = await app().make.project({}, other);
    const job = await runningJob(app(), project, other);
    const bot = await admin().post('/service_accounts');
    await enforce();
    expect((await admin().get('/user')).status).toBe(200);
    expect((await admin().get(`/user?sudo=${other.id}`)).body.id).toBe(other.id);
    expect((await app().anonymous.get('/user', { 'private-token': impersonation.body.token })).body.id).toBe(other.id);
    expect((await app().as({ id: bot.body.id, username: '' }).get('/user')).body.id).toBe(bot.body.id);
    expect((await app().anonymous.get('/job', { 'job-token': job.token })).status).toBe(200);
    expect((await app().as(other).get('/user')).status).toBe(403);
  });

  it('is not asked while there are no terms', async () => {
    expect((await admin().put('/application/settings', { enforce_terms: true, terms: '' })).status).toBe(400);
    expect(
      (
        await app()
          .as(await app().make.user())
          .get('/user')
      ).status,
    ).toBe(200);
  });
});
