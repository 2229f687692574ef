import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createClient as createSseClient } from 'graphql-sse';
import { createClient as createWsClient } from 'graphql-ws';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { z } from 'zod';
import { type Hub, startHub } from '#app/build.ts';
import { readConfig } from '#platform/config/config.ts';
import { createLogger } from '#platform/log.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { Client } from '../support/client.ts';
import type { TestGroup, TestProject } from '../support/factories.ts';
import { until } from '../support/until.ts';

// Two client libraries follow the subscription of the whole log, over two processes of one hub.

const app = useApp();
let second: Hub;
let secondDir = '';
const cleanups: (() => unknown)[] = [];

beforeAll(async () => {
  secondDir = await mkdtemp(join(tmpdir(), 'millrace-test-'));
  const { config, secretKey } = app().hub.services;
  second = await startHub({
    config: readConfig([], {
      DATABASE_URL: config.databaseUrl ?? '',
      MILLRACE_DATA_DIR: secondDir,
      MILLRACE_PORT: '0',
      MILLRACE_ROLE: 'web',
      MILLRACE_SECRET_KEY: secretKey.toString('base64'),
    }),
    log: createLogger('silent'),
    checkResponses: true,
  });
});
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});
afterAll(async () => {
  await second?.close();
  await rm(secondDir, { recursive: true, force: true });
});

const payload = z.object({
  data: z.object({ events: z.object({ cursor: z.string(), kind: z.string(), subjectId: z.number() }).nullable() }),
});
type Seen = NonNullable<z.output<typeof payload>['data']['events']>;

interface Follower {
  readonly seen: Seen[];
  readonly kinds: () => string[];
  readonly ids: () => number[];
  readonly cursor: () => string;
  ended: string | null;
  stop(): Promise<void>;
}

type Transport = 'sse' | 'ws';

const QUERY = `subscription($scope: EventScope, $kinds: [String!], $after: String) {
  events(scope: $scope, kinds: $kinds, after: $after) { cursor kind subjectId } }`;

const follow = async (
  transport: Transport,
  who: TestUser | null,
  variables: Record<string, unknown>,
  url = app().url,
): Promise<Follower> => {
  const token = who && (await app().tokenOf(who));
  const endpoint = `${url}/api/graphql`;
  const client =
    transport === 'sse'
      ? createSseClient({ url: endpoint, retryAttempts: 0, headers: token ? { 'PRIVATE-TOKEN': token } : {} })
      : createWsClient({
          url: endpoint.replace(/^http/, 'ws'),
          webSocketImpl: WebSocket,
          retryAttempts: 0,
          connectionParams: token ? { Authorization: `Bearer ${token}` } : {},
        });
  const seen: Seen[] = [];
  const unsubscribe = client.subscribe(
    { query: QUERY, variables },
    {
      next: (result) => {
        const parsed = payload.safeParse(result);
        if (!parsed.success) follower.ended = JSON.stringify(result);
        else if (parsed.data.data.events) seen.push(parsed.data.data.events);
      },
      error: (error) => {
        follower.ended ??= error instanceof Error ? error.message : JSON.stringify(error);
      },
      complete: () => {
        follower.ended ??= 'complete';
      },
    },
  );
  const follower: Follower = {
    seen,
    kinds: () => seen.map(({ kind }) => kind),
    ids: () => seen.map(({ subjectId }) => subjectId),
    cursor: () => seen.at(-1)?.cursor ?? '',
    ended: null,
    stop: async () => {
      unsubscribe();
      await client.dispose();
    },
  };
  cleanups.push(() => follower.stop());
  return follower;
};

/** Creates a label and returns its id. Every project can have labels, and their readers see the event. */
const change = async (client: Client, project: TestProject, title: string): Promise<number> => {
  const answer = await client.post(`/projects/${project.id}/labels`, { name: title, color: '#ff0000' });
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
  return answer.body.id;
};

/** Waits until the subscriptions are active, by creating labels until each has received one. */
const standing = async (followers: readonly Follower[], client: Client, project: TestProject): Promise<void> => {
  let round = 0;
  await until('the subscriptions to stand', async () => {
    await change(client, project, `probe ${++round} ${performance.now()}`);
    return followers.every(({ seen }) => seen.length > 0);
  });
  const last = await change(client, project, `last ${performance.now()}`);
  await until('the last probe', () => followers.every((follower) => follower.ids().includes(last)));
};

let owner: TestUser;
let group: TestGroup;
let project: TestProject;
beforeAll(async () => {
  owner = await app().make.user();
  group = await app().make.group({ visibility: 'public' }, owner);
  project = await app().make.project({ namespace_id: group.id, visibility: 'public' }, owner);
});
const scope = () => ({ projectPath: project.path_with_namespace });

describe.each(['sse', 'ws'] as const)('a subscription by %s', (transport) => {
  it('gets the events of both processes, and resumes at its cursor without gaps or duplicates', async () => {
    const client = app().as(owner);
    const elsewhere = new Client(second.url, () => app().tokenOf(owner));
    const here = await follow(transport, owner, { scope: scope(), kinds: ['label.created'] });
    const there = await follow(transport, owner, { scope: scope(), kinds: ['label.created'] }, second.url);
    await standing([here, there], client, project);

    const made: number[] = [];
    for (let n = 0; n < 6; n++) made.push(await change(n % 2 ? client : elsewhere, project, `${transport} live ${n}`));
    await until('six more on both', () => [here, there].every(({ ids }) => made.every((id) => ids().includes(id))));
    expect(here.ids().slice(-6)).toEqual(made);
    expect(there.ids().slice(-6)).toEqual(made);

    await here.stop();
    const missed: number[] = [];
    for (let n = 0; n < 4; n++) missed.push(await change(elsewhere, project, `${transport} missed ${n}`));
    // Resume at the other process, because a cursor is not bound to a process.
    const resumed = await follow(
      transport,
      owner,
      { scope: scope(), kinds: ['label.created'], after: here.cursor() },
      second.url,
    );
    const during = await Promise.all(
      [0, 1, 2, 3].map((n) => change(n % 2 ? client : elsewhere, project, `${transport} during ${n}`)),
    );
    await until('what was missed and what came since', () => resumed.seen.length >= 8);
    expect(resumed.ids().slice(0, 4)).toEqual(missed);
    expect(resumed.ids().slice(4).sort()).toEqual(during.sort());
    const again = await follow(transport, owner, { scope: scope(), kinds: ['label.created'], after: resumed.cursor() });
    const next = await change(client, project, `${transport} next`);
    await until('the next', () => again.seen.length > 0);
    expect(again.ids()).toEqual([next]);
  });

  it('checks rights for each event: member removed, token revoked, user blocked', async () => {
    const secret = await app().make.project({ namespace_id: group.id, visibility: 'private' }, owner);
    const client = app().as(owner);
    const [removed, revoked, blocked] = [await app().make.user(), await app().make.user(), await app().make.user()];
    const users = [removed, revoked, blocked];
    for (const user of users) await app().make.projectMember(secret, user, 20);
    const of = { scope: { projectPath: secret.path_with_namespace }, kinds: ['label.created'] };
    const followers = await Promise.all([owner, ...users].map((user) => follow(transport, user, of)));
    const [mine, ...others] = followers;
    await standing(followers, client, secret);
    const before = others.map(({ seen }) => seen.length);

    expect((await client.delete(`/projects/${secret.id}/members/${removed.id}`)).status).toBe(204);
    const { db } = app().hub.services;
    await db.updateTable('personal_access_tokens').set({ revoked: true }).where('user_id', '=', revoked.id).execute();
    await db.updateTable('users').set({ state: 'blocked' }).where('id', '=', blocked.id).execute();
    const hidden: number[] = [];
    for (let n = 0; n < 3; n++) hidden.push(await change(client, secret, `${transport} hidden ${n}`));
    await until('the owner to see them', () => hidden.every((id) => mine?.ids().includes(id)));
    // When the owner has an event, it has been checked for all of them.
    await until('the streams of those without rights to end', () => others.every(({ ended }) => ended !== null));
    expect(others.map(({ seen }) => seen.length)).toEqual(before);
    for (const user of users) {
      const late = await follow(transport, user, { ...of, after: mine?.cursor() });
      await until('the refusal', () => late.ended !== null);
      expect(late.seen).toEqual([]);
    }
  });

  it('shows anonymous callers only public events', async () => {
    const open = await follow(transport, null, { scope: { groupPath: group.full_path }, kinds: ['label.created'] });
    const client = app().as(owner);
    await standing([open], client, project);
    const secret = await app().make.project({ namespace_id: group.id, visibility: 'private' }, owner);
    const hidden = await change(client, secret, `${transport} secret`);
    const shown = await change(client, project, `${transport} shown`);
    await until('the public one', () => open.ids().includes(shown));
    expect(open.ids()).not.toContain(hidden);
    for (const variables of [{}, { scope: { projectPath: secret.path_with_namespace } }]) {
      const refused = await follow(transport, null, variables);
      await until('the refusal', () => refused.ended !== null);
      expect(refused.ended).toMatch(/does not exist or you don't have permission/);
    }
  });
});
