import { afterEach, describe, expect, it } from 'vitest';
import { startHub } from '#app/build.ts';
import { hit, sweepRateCounts } from '#platform/caller/rate-limit.ts';
import { readConfig } from '#platform/config/config.ts';
import { createLogger } from '#platform/log.ts';
import { useApp } from '../support/app.ts';
import { Client } from '../support/client.ts';

// Callers are distinguished by the address that the proxy forwards.
const app = useApp({ env: { MILLRACE_TRUSTED_PROXIES: '127.0.0.1, ::1, ::ffff:127.0.0.1' } });
let count = 0;
const address = () => `203.0.113.${++count}`;
const from = (ip: string) => ({ 'x-forwarded-for': ip });
const set = async (settings: Record<string, unknown>) => {
  const { status, body } = await app().as(app().root).put('/application/settings', settings);
  if (status !== 200) throw new Error(`the settings were not changed: ${status} ${JSON.stringify(body)}`);
};

afterEach(() =>
  set({
    throttle_unauthenticated_api_enabled: false,
    throttle_authenticated_api_enabled: false,
    throttle_unauthenticated_web_enabled: false,
    projects_api_rate_limit_unauthenticated: 0,
    project_jobs_api_rate_limit: 0,
    project_export_limit: 0,
    project_download_export_limit: 0,
    project_import_limit: 0,
    rate_limiting_response_text: 'Retry later',
  }),
);

describe('the rate limit for anonymous callers', () => {
  it('is off until an administrator turns it on', async () => {
    const { headers } = await app().anonymous.get('/projects', from(address()));
    expect([...headers.keys()].filter((name) => name.startsWith('ratelimit'))).toEqual([]);
  });

  it('sends its state in headers, then refuses in plain text, per address', async () => {
    await set({
      throttle_unauthenticated_api_enabled: true,
      throttle_unauthenticated_api_requests_per_period: 2,
      throttle_unauthenticated_api_period_in_seconds: 600,
      rate_limiting_response_text: 'Come back later',
    });
    const [mine, other] = [address(), address()];
    const before = Math.floor(Date.now() / 1_000);
    const first = await app().anonymous.get('/projects', from(mine));
    const after = Math.ceil(Date.now() / 1_000);
    const limitsIn = (headers: Headers) =>
      Object.fromEntries([...headers].filter(([name]) => name.startsWith('ratelimit') || name === 'retry-after'));
    const reset = Number(first.headers.get('ratelimit-reset'));
    expect(limitsIn(first.headers)).toEqual({
      'ratelimit-name': 'throttle_unauthenticated_api',
      'ratelimit-limit': '2',
      'ratelimit-observed': '1',
      'ratelimit-remaining': '1',
      'ratelimit-reset': String(reset),
    });
    expect(reset).toBeGreaterThanOrEqual(before + 600);
    expect(reset).toBeLessThanOrEqual(after + 600);
    expect((await app().anonymous.get('/nothing-there/x', from(mine))).status).toBe(404);
    // A request with an invalid credential counts as anonymous.
    expect((await app().anonymous.get('/user', { ...from(mine), 'private-token': 'guessed' })).status).toBe(401);
    const refused = await app().anonymous.get('/projects', from(mine));
    expect([refused.status, refused.body, refused.headers.get('content-type')]).toEqual([
      429,
      'Come back later',
      'text/plain; charset=utf-8',
    ]);
    expect(limitsIn(refused.headers)).toMatchObject({
      'ratelimit-remaining': '0',
      'ratelimit-resettime': new Date(reset * 1_000).toUTCString(),
      'retry-after': expect.stringMatching(/^\d+$/),
    });
    const graphql = await app().anonymous.get('/api/graphql?query={__typename}', from(mine));
    expect([graphql.status, graphql.body]).toEqual([429, { errors: [{ message: 'Come back later' }] }]);
    expect(graphql.headers.get('retry-after')).toMatch(/^\d+$/);
    expect((await app().anonymous.get('/projects', from(other))).status).toBe(200);
    const user = await app().make.user();
    expect((await app().as(user).get('/projects', from(mine))).status).toBe(200);
    expect((await app().anonymous.get('/-/liveness', from(mine))).status).toBe(200);
  });

  it('counts guessed credentials', async () => {
    await set({
      throttle_unauthenticated_api_enabled: true,
      throttle_unauthenticated_api_requests_per_period: 3,
      throttle_unauthenticated_api_period_in_seconds: 600,
    });
    const ip = address();
    const guess = async (n: number) =>
      (await app().anonymous.get('/user', { ...from(ip), 'private-token': `glpat-${n}` })).status;
    const statuses = [];
    for (let n = 0; n < 5; n++) statuses.push(await guess(n));
    expect(statuses).toEqual([401, 401, 401, 429, 429]);
  });
});

describe('the rate limit for signed-in callers', () => {
  it('counts each user across addresses and processes', async () => {
    await set({
      throttle_authenticated_api_enabled: true,
      throttle_authenticated_api_requests_per_period: 4,
      throttle_authenticated_api_period_in_seconds: 600,
    });
    const { databaseUrl } = app().hub.services.config;
    const second = await startHub({
      config: readConfig([], {
        DATABASE_URL: databaseUrl ?? '',
        MILLRACE_DATA_DIR: app().hub.services.config.dataDir,
        MILLRACE_PORT: '0',
        MILLRACE_ROLE: 'web',
      }),
      log: createLogger('silent'),
    });
    try {
      const [user, other] = [await app().make.user(), await app().make.user()];
      const token = await app().tokenOf(user);
      const elsewhere = new Client(second.url, () => Promise.resolve(token));
      const answers = [];
      for (let n = 0; n < 3; n++) {
        answers.push((await app().as(user).get('/user', from(address()))).status);
        answers.push((await elsewhere.get('/user')).status);
      }
      expect(answers).toEqual([200, 200, 200, 200, 429, 429]);
      expect((await app().as(other).get('/user')).status).toBe(200);
    } finally {
      await second.close();
      await set({ throttle_authenticated_api_enabled: false });
    }
  });
});

describe('the rate limit of pages and git', () => {
  it('is counted apart from the API', async () => {
    await set({
      throttle_unauthenticated_enabled: true,
      throttle_unauthenticated_requests_per_period: 1,
      throttle_unauthenticated_period_in_seconds: 600,
    });
    const ip = address();
    const git = () => fetch(`${app().url}/nothing/there.git/info/refs?service=git-upload-pack`, { headers: from(ip) });
    expect((await git()).status).toBe(401);
    const refused = await git();
    expect([refused.status, await refused.text()]).toEqual([429, 'Retry later\n']);
    expect(refused.headers.get('ratelimit-name')).toBe('throttle_unauthenticated_web');
    expect((await app().anonymous.get('/projects', from(ip))).status).toBe(200);
  });
});

describe('a limit of a single action', () => {
  const TOO_MANY = { message: { error: 'This endpoint has been requested too many times. Try again later.' } };

  it('applies if an administrator sets it', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    await set({ project_export_limit: 1, project_jobs_api_rate_limit: 1, projects_api_rate_limit_unauthenticated: 1 });
    const ip = address();
    const client = app().as(owner);
    const twice = async (ask: () => Promise<{ status: number; body: unknown; headers: Headers }>) => {
      const first = await ask();
      const { status, body, headers } = await ask();
      return [first.status, status, body, Number(headers.get('retry-after')) > 0];
    };
    expect(await twice(() => client.post(`/projects/${project.id}/export`))).toEqual([202, 429, TOO_MANY, true]);
    expect(await twice(() => client.get(`/projects/${project.id}/jobs`))).toEqual([200, 429, TOO_MANY, true]);
    expect(await twice(() => app().anonymous.get('/projects', from(ip)))).toEqual([200, 429, TOO_MANY, true]);
    expect((await client.get('/projects')).status).toBe(200);
    const other = await app().make.user();
    await app().make.projectMember(project, other, 40);
    expect((await app().as(other).get(`/projects/${project.id}/jobs`)).status).toBe(200);
    const mutation = `mutation { projectExport(input: { projectPath: "${project.path_with_namespace}" }) { errors } }`;
    expect(JSON.stringify(await client.graphql(mutation))).toContain('TOO_MANY_REQUESTS');
  });
});

describe('a rate count', () => {
  const services = () => app().hub.services;

  it('starts again after its period, and is swept', async () => {
    const key = `test:${address()}`;
    const rule = { limit: 2, seconds: 600 };
    const stands = async () => {
      const { allowed, remaining, observed } = await hit(services(), key, rule);
      return [allowed, remaining, observed];
    };
    expect([await stands(), await stands(), await stands()]).toEqual([
      [true, 1, 1],
      [true, 0, 2],
      [false, 0, 3],
    ]);
    const past = () =>
      services()
        .db.updateTable('rate_counts')
        .set({ resets_at: '2020-01-01T00:00:00Z' })
        .where('key', '=', key)
        .execute();
    await past();
    expect(await stands()).toEqual([true, 1, 1]);
    await past();
    await sweepRateCounts.run(app().context(), {}, { attempt: 1, lastAttempt: true });
    const row = await services().db.selectFrom('rate_counts').select('key').where('key', '=', key).executeTakeFirst();
    expect(row).toBeUndefined();
  });

  it('is exact for concurrent requests, and accepts any key', async () => {
    const key = `nul\0 and ${'long'.repeat(2_000)} ${address()}`;
    const counts = await Promise.all(
      Array.from({ length: 40 }, () => hit(services(), key, { limit: 10, seconds: 60 })),
    );
    expect(counts.filter(({ allowed }) => allowed)).toHaveLength(10);
    expect(Math.max(...counts.map(({ observed }) => observed))).toBe(40);
  });
});
