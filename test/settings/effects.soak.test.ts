import { afterEach, describe, expect, it } from 'vitest';
import { insertRunningJob, upload, zipOf } from '../artifacts/support.ts';
import { Receiver } from '../hooks/receiver.ts';
import { useApp } from '../support/app.ts';
import { downloadExport } from '../transfers/support.ts';

// The effect of settings that no other folder tests, before and after a change.

const app = useApp();
const admin = () => app().as(app().root);
const set = async (settings: Record<string, unknown>) => {
  const { status, body } = await admin().put('/application/settings', settings);
  expect([status, body.message ?? body.error]).toEqual([200, undefined]);
};

const USUAL = {
  personal_access_token_prefix: 'glpat-',
  max_personal_access_token_lifetime: 365,
  default_branch_name: 'main',
  graphiql_enabled: true,
  push_event_hooks_limit: 3,
  default_artifacts_expire_in: '30 days',
  ci_max_artifact_size_lsif: 200,
  ci_max_artifact_size_terraform: 5,
  ci_max_artifact_size_cyclonedx: 5,
  throttle_unauthenticated_web_enabled: false,
  throttle_authenticated_web_enabled: false,
  allow_local_requests_from_web_hooks_and_services: false,
  allow_local_requests_from_system_hooks: false,
  outbound_local_requests_whitelist: [],
  project_download_export_limit: 0,
};
afterEach(() => set(USUAL));

const day = (days: number): string => new Date(Date.now() + days * 86_400_000).toISOString().slice(0, 10);

describe('personal access tokens', () => {
  const create = async (given: Record<string, unknown> = {}) =>
    admin().post(`/users/${app().root.id}/personal_access_tokens`, { name: 'tool', scopes: ['api'], ...given });

  it('begin with personal_access_token_prefix', async () => {
    expect((await create()).body.token).toMatch(/^glpat-/);
    await set({ personal_access_token_prefix: 'trip-' });
    const { token } = (await create()).body;
    expect(token).toMatch(/^trip-/);
    expect((await app().anonymous.get('/user', { 'private-token': token })).status).toBe(200);
  });

  it('live for at most max_personal_access_token_lifetime days', async () => {
    expect((await create({ expires_at: day(30) })).status).toBe(201);
    await set({ max_personal_access_token_lifetime: 10 });
    expect((await create({ expires_at: day(30) })).body.message).toEqual({
      expires_at: [expect.stringContaining('must be on or before')],
    });
    expect((await create({ expires_at: day(5) })).status).toBe(201);
    expect((await create()).body.expires_at <= day(11)).toBe(true);
  });
});

describe('default_branch_name', () => {
  it('names the initial branch of new projects', async () => {
    const owner = await app().make.user();
    const branch = async () =>
      (await app().make.project({ initialize_with_readme: true }, owner)).default_branch ?? null;
    expect(await branch()).toBe('main');
    await set({ default_branch_name: 'trunk' });
    expect(await branch()).toBe('trunk');
  });
});

describe('graphiql_enabled', () => {
  it('serves the explorer', async () => {
    expect((await app().anonymous.get('/-/graphql-explorer')).status).toBe(200);
    await set({ graphiql_enabled: false });
    expect((await app().anonymous.get('/-/graphql-explorer')).status).toBe(404);
  });
});

describe('push_event_hooks_limit', () => {
  it('keeps pushes of more branches from webhooks', async () => {
    await set({ allow_local_requests_from_web_hooks_and_services: true });
    await using receiver = await Receiver.start();
    const owner = await app().make.user();
    const project = await app().make.project({ initialize_with_readme: true }, owner);
    const path = `/projects/${project.id}`;
    await app().as(owner).post(`${path}/hooks`, { url: receiver.url, push_events: true, tag_push_events: true });
    const push = async (name: string) => {
      await app().as(owner).post(`${path}/repository/branches`, { branch: name, ref: 'main' });
      await app()
        .as(owner)
        .post(`${path}/repository/tags`, { tag_name: `v-${name}`, ref: 'main' });
      await app().settle();
      return receiver.received.map(({ body }) => body.ref);
    };
    const fired = ['refs/heads/one', 'refs/tags/v-one'];
    expect((await push('one')).toSorted()).toEqual(fired);
    await set({ push_event_hooks_limit: 0 });
    expect((await push('two')).toSorted()).toEqual(fired);
    await set({ push_event_hooks_limit: 1 });
    expect((await push('three')).toSorted()).toEqual([
      'refs/heads/one',
      'refs/heads/three',
      'refs/tags/v-one',
      'refs/tags/v-three',
    ]);
  });
});

describe('local addresses', () => {
  it('are opened to hooks by outbound_local_requests_whitelist, and to system hooks by a setting of their own', async () => {
    await using receiver = await Receiver.start();
    const project = await app().make.project();
    const webhooks = `/projects/${project.id}/hooks`;
    const hook = { url: receiver.url, push_events: false, issues_events: true };
    const add = async () => [
      (await admin().post(webhooks, hook)).status,
      (await admin().post('/hooks', { url: receiver.url })).status,
    ];
    const heard = async () => {
      await admin().post(`/projects/${project.id}/issues`, { title: 'Something' });
      await app().settle();
      return receiver.received.filter(({ body }) => body.object_kind === 'issue').length;
    };
    expect(await add()).toEqual([422, 422]);
    await set({ outbound_local_requests_whitelist: ['10.0.0.1', 'receiver.example'] });
    expect(await add()).toEqual([422, 422]);
    await set({ outbound_local_requests_whitelist: ['10.0.0.1', '127.0.0.1'] });
    expect(await add()).toEqual([201, 201]);
    expect(await heard()).toBe(1);
    await set({ outbound_local_requests_whitelist: [], allow_local_requests_from_system_hooks: true });
    expect(await heard()).toBe(1);
    expect(await add()).toEqual([422, 201]);
    for (const { id } of (await admin().get('/hooks')).body) await admin().delete(`/hooks/${id}`);
  });
});

describe('project_download_export_limit', () => {
  it('is how often a user can download the export of a project in a minute', async () => {
    const project = await app().make.project();
    await downloadExport(app(), app().root, project.id);
    const download = async () => (await admin().fetch('GET', `/projects/${project.id}/export/download`)).status;
    expect([await download(), await download()]).toEqual([200, 200]);
    await set({ project_download_export_limit: 1 });
    expect([await download(), await download()]).toEqual([200, 429]);
    await set({ project_download_export_limit: 0 });
    expect(await download()).toBe(200);
  });
});

describe('artifacts', () => {
  it('expire after default_artifacts_expire_in if their job does not say when', async () => {
    const owner = await app().make.user();
    const { id } = await app().make.project({}, owner);
    const archive = await zipOf({ a: 'a' });
    const expiry = async (query = '') => {
      const job = await insertRunningJob(app(), { project_id: id });
      expect((await upload(app(), job, archive, { query })).status).toBe(201);
      const { rows } = await app().hub.services.pool.query(
        'select round(extract(epoch from expire_at - now()) / 86400)::integer as days from job_artifacts where job_id = $1',
        [job.id],
      );
      return rows[0]?.days;
    };
    expect(await expiry()).toBe(30);
    await set({ default_artifacts_expire_in: '3 days' });
    expect([await expiry(), await expiry('expire_in=2+weeks')]).toEqual([3, 14]);
    await set({ default_artifacts_expire_in: '0' });
    expect(await expiry()).toBeNull();
  });

  it.each(['lsif', 'terraform', 'cyclonedx'])('of the type %s have a maximum size of their own', async (type) => {
    const owner = await app().make.user();
    const { id } = await app().make.project({}, owner);
    const send = async () => {
      const job = await insertRunningJob(app(), { project_id: id });
      const format = type === 'lsif' ? 'zip' : type === 'terraform' ? 'raw' : 'gzip';
      const content = format === 'zip' ? await zipOf({ a: LARGE }, { compress: false }) : LARGE;
      return (await upload(app(), job, content, { query: `artifact_type=${type}&artifact_format=${format}` })).status;
    };
    expect(await send()).toBe(201);
    await set({ [`ci_max_artifact_size_${type}`]: 1 });
    expect(await send()).toBe(413);
  });
});

const LARGE = Buffer.concat([Buffer.from([0x1f, 0x8b]), Buffer.alloc(1_200_000, 'x')]);

describe('the rate limits of pages and git', () => {
  it('count requests without a credential by address, apart from those to the API', async () => {
    const page = async () => (await fetch(`${app().url}/users/sign_in`)).status;
    expect([await page(), await page(), await page()]).toEqual([200, 200, 200]);
    await set({
      throttle_unauthenticated_web_enabled: true,
      throttle_unauthenticated_web_requests_per_period: 2,
      throttle_unauthenticated_web_period_in_seconds: 600,
    });
    expect([await page(), await page(), await page()]).toEqual([200, 200, 429]);
    expect((await app().anonymous.get('/projects')).status).toBe(200);
  });

  it('count requests of a user, whatever their credential', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ initialize_with_readme: true }, owner);
    const basic = Buffer.from(`oauth2:${await app().tokenOf(owner)}`).toString('base64');
    const path = `/${project.path_with_namespace}.git/info/refs?service=git-upload-pack`;
    const git = async () =>
      (await fetch(`${app().url}${path}`, { headers: { authorization: `Basic ${basic}` } })).status;
    expect([await git(), await git(), await git()]).toEqual([200, 200, 200]);
    await set({
      throttle_authenticated_web_enabled: true,
      throttle_authenticated_web_requests_per_period: 2,
      throttle_authenticated_web_period_in_seconds: 600,
    });
    expect([await git(), await git(), await git()]).toEqual([200, 200, 429]);
    expect((await app().as(owner).get('/user')).status).toBe(200);
  });
});
