import { createClient as createSseClient } from 'graphql-sse';
import { createClient as createWsClient } from 'graphql-ws';
import { beforeAll, describe, expect, it } from 'vitest';
import { WebSocket } from 'ws';
import { routes } from '#app/routes.ts';
import { digestToken, randomToken } from '#platform/secrets.ts';
import type { Route } from '#rest/route.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { TestProject } from '../support/factories.ts';
import { runningJob } from '../support/running-job.ts';

// Tests what a token of each scope can access, on every route (reference: conventions §5). The table is written from
// the reference and not from the routes.

const app = useApp({ sweep: true });
let user: TestUser;
let project: TestProject;

beforeAll(async () => {
  user = await app().make.user();
  project = await app().make.project({ visibility: 'private', initialize_with_readme: true }, user);
});

const NOTHING_THERE = '987654321';

const isRead = ({ method }: Route) => method === 'GET';
const isOf = ({ path, method }: Route, wanted: string, ...methods: readonly string[]) =>
  path === wanted && methods.includes(method);

/** Every token may show and revoke itself, and pictures need no scope. */
const isForAll = (route: Route) =>
  isOf(route, '/personal_access_tokens/self', 'GET', 'DELETE') || route.path.startsWith('/uploads/');

/** Routes about users: `GET /user` and `GET /users...`, without their lists of projects. */
const isAboutPeople = (route: Route) =>
  isRead(route) && /^\/users?(\/|$)/.test(route.path) && !/projects$/.test(route.path);

const OPENS: Readonly<Record<string, (route: Route) => boolean>> = {
  api: () => true,
  // Client keys are credentials that write (specification 1 §4.6).
  read_api: (route) => isRead(route) && !isOf(route, '/projects/:id/error_tracking/client_keys', 'GET'),
  read_user: (route) => isAboutPeople(route) || isOf(route, '/version', 'GET') || isOf(route, '/metadata', 'GET'),
  read_repository: (route) => isRead(route) && route.path.startsWith('/projects/:id/repository/files/'),
  write_repository: () => false,
  create_runner: (route) => isOf(route, '/user/runners', 'POST'),
  self_rotate: (route) => isOf(route, '/personal_access_tokens/self/rotate', 'POST'),
  k8s_proxy: () => false,
  admin_mode: () => false,
  sudo: () => false,
  openid: () => false,
  profile: () => false,
  email: () => false,
};

/** The routes that the token of a running job opens (reference: ci §7). */
const OPENS_TO_JOBS = [
  'GET /job',
  'GET /jobs/:job_id/artifacts',
  'GET /projects/:id/repository/(branches|tags)(/:[a-z_]+)?',
  'GET /projects/:id/repository/commits/:sha',
  'GET /projects/:id/repository/files/:file_path/raw',
  'GET /projects/:id/merge_requests(/:[a-z_]+(/notes(/:note_id)?|/pipelines)?)?',
  'PUT /projects/:id/pipelines/:pipeline_id/metadata',
  'POST /projects/:id(/ref/:ref)?/trigger/pipeline',
  '[A-Z]+ /projects/:id/(environments|deployments)(/.*)?',
  'GET /projects/:id/jobs/(artifacts/.*|:[a-z_]+/artifacts.*)',
  'GET /projects/:id/pipelines(/latest|/:pipeline_id(/jobs|/bridges|/trigger_jobs)?)?',
  '[A-Z]+ /projects/:id/releases(/.*)?',
].map((pattern) => new RegExp(`^${pattern}$`));
const isOpenToJobs = ({ method, path }: Route) => OPENS_TO_JOBS.some((pattern) => pattern.test(`${method} ${path}`));

const pathOf = (route: Route): string => route.path.replace(/[:*]([A-Za-z_]+)/g, NOTHING_THERE);

const insertOauthToken = async (owner: TestUser, scopes: readonly string[]): Promise<string> => {
  const value = randomToken(43);
  await app()
    .hub.services.db.insertInto('oauth_access_tokens')
    .values({
      user_id: owner.id,
      digest: digestToken(value),
      scopes: [...scopes],
      family_id: crypto.randomUUID(),
    })
    .execute();
  return value;
};

describe('every route of the API', () => {
  const api = routes.filter(({ url }) => url.startsWith('/api/v4/'));

  /** Sends a request to each route with a token of the scopes. Returns the routes that are opened or refused wrongly. */
  const wrongWith = async (
    scopes: readonly string[],
    chosen: readonly Route[],
    opens: (route: Route) => boolean,
  ): Promise<unknown[]> => {
    const wrong: unknown[] = [];
    const tokens: { oauth?: string; personal?: string } = {};
    for (const route of chosen) {
      // Personal and OAuth tokens follow the same rules.
      const kind = route.path.length % 2 === 0 ? 'oauth' : 'personal';
      const ask = async () => {
        const token = tokens[kind] ?? (await (kind === 'oauth' ? insertOauthToken : newToken)(user, scopes));
        tokens[kind] = token;
        const headers: Record<string, string> =
          kind === 'oauth' ? { authorization: `Bearer ${token}` } : { 'private-token': token };
        const body = route.method === 'GET' ? undefined : {};
        return app().anonymous.request(route.method, pathOf(route), body, headers);
      };
      let answer = await ask();
      // An earlier route may have revoked the token.
      if (answer.status === 401) {
        delete tokens[kind];
        answer = await ask();
      }
      const { status, body: said } = answer;
      const isRefused = status === 403 && said.error === 'insufficient_scope';
      if (isRefused === (opens(route) || isForAll(route)) || status >= 500)
        wrong.push([scopes, route.method, route.path, status, said]);
      if (isRefused && !route.scopes.includes('api')) wrong.push([route.path, 'does not open to api']);
    }
    return wrong;
  };
  // Routes for runners read tokens of their own.
  const scoped = api.filter(({ auth }) => auth !== 'own');
  const narrow = Object.keys(OPENS).filter((scope) => scope !== 'api' && scope !== 'read_api');
  const opensNarrowly = (route: Route) => isForAll(route) || narrow.some((scope) => OPENS[scope]?.(route));

  it.each(['api', 'read_api'])('allows the scope %s as in the reference', async (scope) => {
    expect(await wrongWith([scope], scoped, (route) => OPENS[scope]?.(route) === true)).toEqual([]);
  });

  // Each scope of a token can only open routes. If all together do not open a route, none of them does.
  it('allows all other scopes together as in the reference', async () => {
    expect(await wrongWith(narrow, scoped, opensNarrowly)).toEqual([]);
  });

  it.each(narrow)('allows the scope %s, of the routes that these open, as in the reference', async (scope) => {
    const open = scoped.filter(opensNarrowly);
    expect(open.length).toBeGreaterThan(10);
    expect(await wrongWith([scope], open, (route) => OPENS[scope]?.(route) === true)).toEqual([]);
  });

  it('allows the token of a job as in the reference, and refuses it everywhere else', async () => {
    const { token } = await runningJob(app(), project, user);
    const wrong: unknown[] = [];
    for (const route of api.filter(({ auth }) => auth !== 'own')) {
      const body = route.method === 'GET' ? undefined : {};
      const { status, body: said } = await app().anonymous.request(route.method, pathOf(route), body, {
        'job-token': token,
      });
      const isRefused = status === 403 && said.error === 'insufficient_scope';
      if (isRefused === isOpenToJobs(route) || status >= 500) wrong.push([route.method, route.path, status, said]);
    }
    expect(wrong).toEqual([]);
    const pictures = await app().anonymous.get(`${app().url}/uploads/-/system/user/avatar/1/a.png`, {
      'job-token': token,
    });
    expect(pictures.status).toBe(403);
  });

  it('mentions no scope if there is no token', async () => {
    const { status, body } = await app().anonymous.get('/user');
    expect([status, body]).toEqual([401, { message: '401 Unauthorized' }]);
  });

  it('treats HEAD like GET', async () => {
    const head = async (scope: string) => (await app().as(user, [scope]).head('/projects')).status;
    expect([await head('read_api'), await head('read_repository')]).toEqual([200, 403]);
  });
});

const newToken = async (owner: TestUser, scopes: readonly string[]): Promise<string> => {
  const value = `glpat-${randomToken()}`;
  await app()
    .hub.services.db.insertInto('personal_access_tokens')
    .values({ user_id: owner.id, name: 'scoped', scopes: [...scopes], digest: digestToken(value) })
    .execute();
  return value;
};

const QUERY = '{ currentUser { username } }';
const MUTATION = 'mutation { createIssue(input: { projectPath: "nothing/there", title: "x" }) { errors } }';
const SUBSCRIPTION = 'subscription { events { cursor } }';

describe('GraphQL', () => {
  it.each(Object.keys(OPENS))('allows the scope %s as in the reference', async (scope) => {
    const [reads, writes] = [scope === 'api' || scope === 'read_api', scope === 'api'];
    for (const token of [await newToken(user, [scope]), await insertOauthToken(user, [scope])]) {
      const headers = { authorization: `Bearer ${token}` };
      const isRefused = async (query: string) => {
        const { body } = await app().anonymous.request('POST', '/api/graphql', { query }, headers);
        return JSON.stringify(body).includes('INSUFFICIENT_SCOPE');
      };
      const byGet = await app().anonymous.get(`/api/graphql?query=${encodeURIComponent(QUERY)}`, headers);
      expect([
        scope,
        await isRefused(QUERY),
        await isRefused(MUTATION),
        JSON.stringify(byGet.body).includes('INSUFFICIENT_SCOPE'),
      ]).toEqual([scope, !reads, !writes, !reads]);
    }
  });

  it('shows client keys only to the scope api, as REST does', async () => {
    const client = (scope: string) => app().as(user, [scope]);
    await client('api').post(`/projects/${project.id}/error_tracking/client_keys`);
    const keysFor = async (scope: string) => {
      const { data, errors } = await client(scope).graphql(
        'query ($path: ID!) { project(fullPath: $path) { errorTracking { enabled clientKeys { publicKey sentryDsn } } } }',
        { path: project.path_with_namespace },
      );
      return [data.project.errorTracking, errors?.map(({ extensions }) => extensions?.code)];
    };
    const key = { publicKey: expect.stringMatching(/^glet_/), sentryDsn: expect.any(String) };
    expect(await keysFor('api')).toEqual([{ enabled: true, clientKeys: [key] }, undefined]);
    expect(await keysFor('read_api')).toEqual([{ enabled: true, clientKeys: null }, ['INSUFFICIENT_SCOPE']]);
  });

  it('refuses the token of a job', async () => {
    const { token } = await runningJob(app(), project, user);
    for (const query of [QUERY, MUTATION]) {
      const { body } = await app().anonymous.request('POST', '/api/graphql', { query }, { 'job-token': token });
      expect(JSON.stringify(body)).toContain('INSUFFICIENT_SCOPE');
    }
  });

  it('allows no other scope to subscribe, by event streams or WebSockets, or to change anything by them', async () => {
    const first = async (query: string, token: string, transport: 'sse' | 'ws'): Promise<string> => {
      const { promise, resolve } = Promise.withResolvers<string>();
      const url = `${app().url}/api/graphql`;
      const sink = {
        next: (value: unknown) => resolve(JSON.stringify(value)),
        error: (error: unknown) => resolve(JSON.stringify(error)),
        complete: () => resolve('complete'),
      };
      if (transport === 'sse') {
        createSseClient({ url, headers: { authorization: `Bearer ${token}` }, retryAttempts: 0 }).subscribe(
          { query },
          sink,
        );
      } else {
        createWsClient({
          url: url.replace('http', 'ws'),
          webSocketImpl: WebSocket,
          connectionParams: { authorization: `Bearer ${token}` },
          retryAttempts: 0,
        }).subscribe({ query }, sink);
      }
      return promise;
    };
    for (const transport of ['sse', 'ws'] as const) {
      for (const token of [await newToken(user, ['read_user']), await insertOauthToken(user, ['openid'])]) {
        expect(await first(SUBSCRIPTION, token, transport)).toContain('INSUFFICIENT_SCOPE');
        expect(await first(QUERY, token, transport)).toContain('INSUFFICIENT_SCOPE');
      }
      const reader = await insertOauthToken(user, ['read_api']);
      expect(await first(QUERY, reader, transport)).toContain(user.username);
      expect(await first(MUTATION, reader, transport)).toContain('INSUFFICIENT_SCOPE');
    }
  });
});

describe('git', () => {
  const asked = async (service: 'git-upload-pack' | 'git-receive-pack', name: string, password: string) => {
    const response = await fetch(`${app().url}/${project.path_with_namespace}.git/info/refs?service=${service}`, {
      headers: { authorization: `Basic ${btoa(`${name}:${password}`)}` },
    });
    await response.arrayBuffer();
    return response.status;
  };

  it.each(Object.keys(OPENS))('allows the scope %s as in the reference', async (scope) => {
    const reads = ['api', 'read_repository', 'write_repository'].includes(scope);
    const writes = ['api', 'write_repository'].includes(scope);
    for (const token of [await newToken(user, [scope]), await insertOauthToken(user, [scope])]) {
      expect([
        scope,
        await asked('git-upload-pack', 'oauth2', token),
        await asked('git-receive-pack', 'oauth2', token),
      ]).toEqual([scope, reads ? 200 : 403, writes ? 200 : 403]);
    }
  });

  it('refuses an unknown, revoked or expired token', async () => {
    const token = await insertOauthToken(user, ['api']);
    expect(await asked('git-upload-pack', 'oauth2', token)).toBe(200);
    const change = (set: { revoked_at?: string; expires_at?: string }) =>
      app()
        .hub.services.db.updateTable('oauth_access_tokens')
        .set(set)
        .where('digest', '=', digestToken(token))
        .execute();
    await change({ expires_at: '2020-01-01T00:00:00Z' });
    expect(await asked('git-upload-pack', 'oauth2', token)).toBe(401);
    await change({ expires_at: '2999-01-01T00:00:00Z', revoked_at: '2020-01-01T00:00:00Z' });
    expect(await asked('git-upload-pack', 'oauth2', token)).toBe(401);
    expect(await asked('git-upload-pack', 'oauth2', randomToken(43))).toBe(401);
  });
});

describe('sudo', () => {
  it('needs its scope, an administrator, and the scope of the route', async () => {
    const ask = async (owner: TestUser, scopes: readonly string[], path: string) =>
      (await app().anonymous.get(`${path}?sudo=${user.id}`, { 'private-token': await newToken(owner, scopes) })).status;
    const { root } = app();
    expect(await ask(root, ['api', 'sudo'], '/user')).toBe(200);
    expect(await ask(root, ['api'], '/user')).toBe(403);
    expect(await ask(root, ['sudo'], '/user')).toBe(403);
    expect(await ask(user, ['api', 'sudo'], '/user')).toBe(403);
    // The user acted for is not an administrator.
    expect(await ask(root, ['api', 'sudo'], '/application/settings')).toBe(403);
  });
});
