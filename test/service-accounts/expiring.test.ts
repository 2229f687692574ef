import { sql } from 'kysely';
import { beforeAll, describe, expect, it } from 'vitest';
import { emitExpiringTokens } from '#domains/service-accounts/expiring.ts';
import { mailExpiring } from '#domains/tokens/expiring.ts';
import { Receiver } from '../hooks/receiver.ts';
import { useApp } from '../support/app.ts';
import { mailsTo } from '../support/mails.ts';
import { until } from '../support/until.ts';

const app = useApp();
const admin = () => app().as(app().root);
const db = () => app().hub.services.db;
let receiver: Receiver;
beforeAll(async () => {
  await admin().put('/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
  receiver = await Receiver.start();
  return () => receiver[Symbol.asyncDispose]();
});

/** Runs the nightly jobs. */
const tonight = async () => {
  await app()
    .context()
    .transaction(async (tx) => {
      tx.enqueue(emitExpiringTokens, {});
      tx.enqueue(mailExpiring, {});
    });
  await app().settle();
};

/** Sets the expiry of a token to `days` from now, and its creation to long ago. */
const endIn = (id: number, days: number, madeDaysAgo = 200) =>
  sql`update personal_access_tokens set expires_at = current_date + ${days}::int,
    created_at = now() - make_interval(days => ${madeDaysAgo}::int) where id = ${id}`.execute(db());

const noticesOf = async (id: number) =>
  (
    await db()
      .selectFrom('events')
      .select('payload')
      .where('kind', '=', 'token.expiring')
      .where('subject_id', '=', id)
      .orderBy('id')
      .execute()
  ).map(({ payload }) => Reflect.get(Object(payload), 'days'));

const makeToken = async () => {
  const owner = await app().make.user();
  const group = await app().make.group({}, owner);
  const accounts = `/groups/${group.id}/service_accounts`;
  const account = (await app().as(owner).post(accounts, {})).body;
  const tokens = `${accounts}/${account.id}/personal_access_tokens`;
  const token = (
    await app()
      .as(owner)
      .post(tokens, { name: 'nightly', scopes: ['api'] })
  ).body;
  return { owner, group, account, tokens, token };
};

describe('a token of a service account', () => {
  it('is reported to hooks seven days and one day before it expires, once each', async () => {
    const { owner, group, account, token } = await makeToken();
    const hook = await app()
      .as(owner)
      .post(`/groups/${group.id}/hooks`, {
        url: `${receiver.url}/expiring`,
        resource_access_token_events: true,
        push_events: false,
      });
    expect(hook.status).toBe(201);
    await endIn(token.id, 8);
    await tonight();
    expect(await noticesOf(token.id)).toEqual([]);
    await endIn(token.id, 7);
    await tonight();
    await tonight();
    expect(await noticesOf(token.id)).toEqual([7]);
    await endIn(token.id, 2);
    await tonight();
    expect(await noticesOf(token.id)).toEqual([7]);
    await endIn(token.id, 1);
    await Promise.all([tonight(), tonight()]);
    expect(await noticesOf(token.id)).toEqual([7, 1]);
    const received = () => receiver.received.filter(({ path }) => path.endsWith('/expiring'));
    await until('two deliveries', () => received().length === 2);
    expect(received()[0]?.headers['x-gitlab-event']).toBe('Resource Access Token Hook');
    expect(received()[0]?.body).toEqual({
      object_kind: 'access_token',
      event_name: 'expiring_access_token',
      group: { group_name: group.path, group_path: group.path, group_id: group.id, full_path: group.full_path },
      object_attributes: {
        id: token.id,
        user_id: account.id,
        name: 'nightly',
        created_at: expect.stringMatching(/ UTC$/),
        expires_at: expect.stringMatching(/^\d{4}-\d\d-\d\d$/),
      },
    });
    expect(JSON.stringify(received())).not.toContain(token.token);
  });

  it('is reported late if a night was missed, but not if it was created for less time', async () => {
    const missed = await makeToken();
    await endIn(missed.token.id, 5);
    const short = await makeToken();
    await endIn(short.token.id, 5, 1);
    await tonight();
    expect(await noticesOf(missed.token.id)).toEqual([7]);
    expect(await noticesOf(short.token.id)).toEqual([]);
  });

  it('is also reported 60 and 30 days before if the settings say so', async () => {
    const { token } = await makeToken();
    await endIn(token.id, 60);
    await tonight();
    expect(await noticesOf(token.id)).toEqual([]);
    await admin().put('/application/settings', { extended_grat_expiry_webhooks_execute: true });
    try {
      await tonight();
      await endIn(token.id, 30);
      await tonight();
    } finally {
      await admin().put('/application/settings', { extended_grat_expiry_webhooks_execute: false });
    }
    expect(await noticesOf(token.id)).toEqual([60, 30]);
  });

  it('is not reported if it is revoked or expired, or if its account is blocked', async () => {
    const [revoked, over, closed] = [await makeToken(), await makeToken(), await makeToken()];
    await app().as(revoked.owner).delete(`${revoked.tokens}/${revoked.token.id}`);
    await endIn(revoked.token.id, 7);
    await endIn(over.token.id, -1);
    await endIn(closed.token.id, 7);
    await admin().post(`/users/${closed.account.id}/block`);
    await tonight();
    for (const { token } of [revoked, over, closed]) expect(await noticesOf(token.id)).toEqual([]);
  });

  it('is reported only to Owners of the group', async () => {
    const { token, group } = await makeToken();
    await endIn(token.id, 7);
    await tonight();
    const event = await db()
      .selectFrom('events')
      .select(['namespace_ids', 'min_access_level'])
      .where('kind', '=', 'token.expiring')
      .where('subject_id', '=', token.id)
      .executeTakeFirstOrThrow();
    expect(event).toEqual({ namespace_ids: [group.id], min_access_level: 50 });
  });
});

describe('a personal token of a user', () => {
  it('is reported by mail seven days before it expires, once', async () => {
    const user = await app().make.user();
    const made = await admin().post(`/users/${user.id}/personal_access_tokens`, { name: 'laptop', scopes: ['api'] });
    await endIn(made.body.id, 7);
    await tonight();
    await endIn(made.body.id, 1);
    await tonight();
    const mails = await mailsTo(app(), `${user.username}@example.com`);
    expect(mails).toHaveLength(1);
    expect(mails[0]?.subject).toBe('One of your personal access tokens is about to expire');
    expect(mails[0]?.text).toContain('"laptop"');
    expect(mails[0]?.text).not.toContain(made.body.token);
    expect(await noticesOf(made.body.id)).toEqual([]);
  });

  it('is not reported to an unconfirmed address', async () => {
    const user = await app().make.user({ confirmed_at: null });
    const made = await admin().post(`/users/${user.id}/personal_access_tokens`, { name: 'laptop', scopes: ['api'] });
    await endIn(made.body.id, 7);
    await tonight();
    expect(await mailsTo(app(), `${user.username}@example.com`)).toEqual([]);
  });
});
