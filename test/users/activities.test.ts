import { beforeAll, describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';

const app = useApp();

const daysAgo = (days: number) => new Date(Date.now() - days * 86_400_000).toISOString().slice(0, 10);

let reader: TestUser;
let long: TestUser;
let recent: TestUser;
let same: TestUser;
let shy: TestUser;
let ancient: TestUser;

beforeAll(async () => {
  const { make } = app();
  reader = await make.user();
  // Create these users in another order than the list has them.
  recent = await make.user({ last_activity_on: daysAgo(10) });
  same = await make.user({ last_activity_on: daysAgo(10) });
  long = await make.user({ last_activity_on: daysAgo(100) });
  shy = await make.user({ last_activity_on: daysAgo(50), private_profile: true });
  ancient = await make.user({ last_activity_on: daysAgo(400) });
  await make.user();
});

/** Returns the names without users active today, which are the readers themselves. */
const namesOf = async (client: Client, query = '') => {
  const { status, body } = await client.get(`/user/activities${query}`);
  expect(status).toBe(200);
  const today = daysAgo(0);
  return body.flatMap((each: { username: string; last_activity_on: string }) =>
    each.last_activity_on === today ? [] : [each.username],
  );
};

describe('the list of activities', () => {
  it('has users with public profiles from the last half year, the longest inactive first', async () => {
    expect(await namesOf(app().as(reader))).toEqual([long.username, recent.username, same.username]);
    const { body } = await app().as(reader).get('/user/activities');
    expect(body[0]).toEqual({
      username: long.username,
      last_activity_on: daysAgo(100),
      last_activity_at: daysAgo(100),
    });
  });

  it('starts with the requested day', async () => {
    expect(await namesOf(app().as(reader), `?from=${daysAgo(10)}`)).toEqual([recent.username, same.username]);
    expect(await namesOf(app().as(reader), `?from=${daysAgo(9)}`)).toEqual([]);
    expect(await namesOf(app().as(reader), `?from=${daysAgo(401)}`)).toEqual([
      ancient.username,
      long.username,
      recent.username,
      same.username,
    ]);
  });

  it('shows private profiles to administrators', async () => {
    expect(await namesOf(app().as(app().root))).toEqual([long.username, shy.username, recent.username, same.username]);
    // Other callers see only public profiles.
    expect(await namesOf(app().as(reader))).not.toContain(shy.username);
  });

  it.each(['yesterday', '2024-02-30', '2024-02-30T00:00:00Z', ['2024-01-01', '2024-01-02']])(
    'refuses %j as a day',
    async (from) => {
      const query = Array.isArray(from) ? from.map((each) => `from[]=${each}`).join('&') : `from=${from}`;
      const { status, body } = await app().as(reader).get(`/user/activities?${query}`);
      expect([status, body]).toEqual([400, { error: 'from is invalid (allowed: a date, YYYY-MM-DD)' }]);
    },
  );

  it('requires a signed-in user', async () => {
    expect((await app().anonymous.get('/user/activities')).status).toBe(401);
    expect((await app().anonymous.graphql('{ userActivities { count } }')).data.userActivities).toBeNull();
  });

  it('is paginated by offset and by keyset', async () => {
    const client = app().as(app().root);
    const expected = [long.username, shy.username, recent.username, same.username];
    const second = await client.get('/user/activities?per_page=2&page=2');
    expect(second.body.slice(0, 2).map((each: TestUser) => each.username)).toEqual(expected.slice(2));
    const seen: string[] = [];
    for (let path: string | null = '/user/activities?pagination=keyset&per_page=1'; path && seen.length < 4; ) {
      const { body, headers } = await client.get(path);
      seen.push(body[0].username);
      const next: string | undefined = /<([^>]+)>; rel="next"/.exec(headers.get('link') ?? '')?.[1];
      path = next ? next.slice(next.indexOf('/user/')) : null;
    }
    expect(seen).toEqual(expected);
  });

  it('is the same over GraphQL', async () => {
    const query = `query($from: Date) { userActivities(from: $from) { nodes { user { username } lastActivityOn } } }`;
    for (const user of [reader, app().root]) {
      for (const from of [null, daysAgo(401)]) {
        const { data } = await app().as(user).graphql(query, { from });
        const shown = data.userActivities.nodes.map(
          (each: { user: TestUser; lastActivityOn: string }) => `${each.user.username} ${each.lastActivityOn}`,
        );
        const { body } = await app()
          .as(user)
          .get(`/user/activities${from ? `?from=${from}` : ''}`);
        expect(shown).toEqual(
          body.map((each: TestUser & { last_activity_on: string }) => `${each.username} ${each.last_activity_on}`),
        );
      }
    }
  });

  it('is updated by real requests', async () => {
    const user = await app().make.user();
    const client = app().as(user);
    await client.get('/version');
    await expect.poll(async () => (await client.get('/user')).body.last_activity_on).toBe(daysAgo(0));
  });
});
