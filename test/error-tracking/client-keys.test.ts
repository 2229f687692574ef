import { describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';

const app = useApp();

const setUp = async () => {
  const owner = await app().make.user();
  const project = await app().make.project({ visibility: 'private' }, owner);
  const maintainer = await app().make.user();
  await app().make.projectMember(project, maintainer, 40);
  return {
    owner,
    maintainer,
    project,
    settings: `/projects/${project.id}/error_tracking/settings`,
    keys: `/projects/${project.id}/error_tracking/client_keys`,
  };
};

const eventsOf = async (projectId: number) => {
  const { rows } = await app().hub.services.pool.query(
    `select kind, payload, min_access_level from events where project_id = $1 and kind like 'error_tracking%' order by id`,
    [projectId],
  );
  return rows;
};

const graphql = (user: TestUser, query: string, variables: Record<string, unknown>) =>
  app().as(user).graphql(query, variables);

describe('client keys', () => {
  it('are created, listed, shown again and deleted by maintainers', async () => {
    const { maintainer, project, keys } = await setUp();
    const client = app().as(maintainer);
    const created = await client.post(keys);
    const public_key = expect.stringMatching(/^glet_[0-9a-f]{40}$/);
    expect([created.status, created.body]).toEqual([
      201,
      { id: expect.any(Number), active: true, public_key, sentry_dsn: expect.any(String) },
    ]);
    const dsn = new URL(created.body.sentry_dsn);
    expect([dsn.username, dsn.password]).toEqual([created.body.public_key, '']);
    expect(`${dsn.origin}${dsn.pathname}`).toBe(`${app().url}/api/v4/error_tracking/collector/${project.id}`);
    const second = await client.post(keys);
    expect(second.body.public_key).not.toBe(created.body.public_key);
    const listed = await client.get(keys);
    expect(listed.body).toEqual([created.body, second.body]);
    expect(listed.headers.get('x-total')).toBe('2');
    expect((await client.get(`${keys}?per_page=1&page=2`)).body).toEqual([second.body]);

    const deleted = await client.delete(`${keys}/${created.body.id}`);
    expect([deleted.status, deleted.body]).toEqual([204, '']);
    expect((await client.delete(`${keys}/${created.body.id}`)).body).toEqual({ message: '404 Client Key Not Found' });
    expect((await client.get(keys)).body).toEqual([second.body]);
    const payload = (id: number) => ({ id, project_id: project.id });
    expect(await eventsOf(project.id)).toEqual([
      { kind: 'error_tracking_client_key.created', payload: payload(created.body.id), min_access_level: 40 },
      { kind: 'error_tracking_client_key.created', payload: payload(second.body.id), min_access_level: 40 },
      { kind: 'error_tracking_client_key.deleted', payload: payload(created.body.id), min_access_level: 40 },
    ]);
  });

  it('are not stored as text', async () => {
    const { maintainer, keys } = await setUp();
    const { body } = await app().as(maintainer).post(keys);
    const { rows } = await app().hub.services.pool.query(
      `select k::text as row from error_tracking_client_keys k where id = $1`,
      [body.id],
    );
    expect(rows).toHaveLength(1);
    expect(rows[0].row).not.toContain(body.public_key);
    expect(rows[0].row).not.toContain(Buffer.from(body.public_key).toString('hex'));
  });

  it('are for maintainers with the scope api', async () => {
    const { maintainer, project, keys } = await setUp();
    const { body: key } = await app().as(maintainer).post(keys);
    const developer = await app().make.user();
    await app().make.projectMember(project, developer, 30);
    const stranger = await app().make.user();
    const refused = async (client: ReturnType<typeof app>['anonymous'], status: number) => {
      expect((await client.get(keys)).status).toBe(status);
      expect((await client.post(keys)).status).toBe(status);
      expect((await client.delete(`${keys}/${key.id}`)).status).toBe(status);
    };
    await refused(app().as(developer), 403);
    await refused(app().as(stranger), 404);
    await refused(app().anonymous, 401);
    await refused(app().as(maintainer, ['read_api']), 403);
    expect((await app().as(maintainer).get(keys)).body).toEqual([key]);
  });

  it('belong to one project, which is named by its number or path', async () => {
    const { maintainer, project, keys } = await setUp();
    const other = await setUp();
    const client = app().as(maintainer);
    const { body: foreign } = await app().as(other.maintainer).post(other.keys);
    expect((await client.delete(`${keys}/${foreign.id}`)).status).toBe(404);
    expect((await app().as(other.maintainer).get(other.keys)).body).toEqual([foreign]);
    const path = encodeURIComponent(project.path_with_namespace);
    expect((await client.get(`/projects/${path}/error_tracking/client_keys`)).body).toEqual([]);
    expect((await client.delete(`${keys}/x`)).body).toEqual({ error: expect.stringContaining('key_id is invalid') });
  });

  it('are limited to 100 in a project, also if two are created at once', async () => {
    const { maintainer, project, keys } = await setUp();
    await app().hub.services.pool.query(
      `insert into error_tracking_client_keys (project_id, digest, sealed_key)
       select $1::bigint, sha256(concat($1::bigint, ':', n)::bytea), '' from generate_series(1, 99) n`,
      [project.id],
    );
    const answers = await Promise.all([1, 2, 3].map(() => app().as(maintainer).post(keys)));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 400, 400]);
    expect(answers.find(({ status }) => status === 400)?.body).toEqual({
      message: { base: ['has too many client keys (maximum is 100)'] },
    });
  });
});

describe('the settings of error tracking', () => {
  it('are changed by maintainers, and hide the client keys while errors are not stored here', async () => {
    const { maintainer, project, settings, keys } = await setUp();
    const client = app().as(maintainer);
    const shown = { project_name: project.name, sentry_external_url: null, api_url: null };
    expect((await client.get(settings)).body).toEqual({ active: true, integrated: true, ...shown });
    const { body: key } = await client.post(keys);

    const turnedOff = await client.patch(settings, { integrated: false });
    expect([turnedOff.status, turnedOff.body]).toEqual([200, { active: true, integrated: false, ...shown }]);
    expect((await client.get(keys)).status).toBe(404);
    expect((await client.post(keys)).status).toBe(404);
    expect((await client.delete(`${keys}/${key.id}`)).status).toBe(404);

    expect((await client.put(settings, { active: false, integrated: true })).body).toEqual({
      active: false,
      integrated: true,
      ...shown,
    });
    expect((await client.get(keys)).status).toBe(404);
    // Nothing changes, and nothing is announced.
    expect((await client.put(settings, { active: false })).status).toBe(200);
    expect((await client.patch(settings, { active: true })).status).toBe(200);
    expect((await client.get(keys)).body).toEqual([key]);
    const payload = (active: boolean, integrated: boolean) => ({ project_id: project.id, active, integrated });
    expect((await eventsOf(project.id)).slice(1)).toEqual([
      { kind: 'error_tracking_settings.updated', payload: payload(true, false), min_access_level: 40 },
      { kind: 'error_tracking_settings.updated', payload: payload(false, true), min_access_level: 40 },
      { kind: 'error_tracking_settings.updated', payload: payload(true, true), min_access_level: 40 },
    ]);
  });

  it('are refused to others, and with invalid values', async () => {
    const { maintainer, project, settings } = await setUp();
    const developer = await app().make.user();
    await app().make.projectMember(project, developer, 30);
    for (const [client, status] of [
      [app().as(developer), 403],
      [app().as(await app().make.user()), 404],
      [app().anonymous, 401],
    ] as const) {
      expect((await client.get(settings)).status).toBe(status);
      expect((await client.put(settings, { active: false })).status).toBe(status);
      expect((await client.patch(settings, { active: false })).status).toBe(status);
    }
    expect((await app().as(maintainer).put(settings, {})).status).toBe(400);
    expect((await app().as(maintainer).put(settings, { active: 'perhaps' })).body).toEqual({
      error: expect.stringContaining('active is invalid'),
    });
    expect((await app().as(maintainer).get(settings)).body).toMatchObject({ active: true, integrated: true });
  });
});

describe('error tracking over GraphQL', () => {
  const QUERY = `query ($path: ID!) {
    project(fullPath: $path) { errorTracking { enabled integrated clientKeys { id active publicKey sentryDsn createdAt } } }
  }`;

  it('shows and changes the same', async () => {
    const { maintainer, project, keys } = await setUp();
    const path = project.path_with_namespace;
    const created = await graphql(
      maintainer,
      `mutation ($path: ID!) { errorTrackingClientKeyCreate(input: { projectPath: $path }) {
        clientKey { id active publicKey sentryDsn createdAt } errors } }`,
      { path },
    );
    const { clientKey } = created.data.errorTrackingClientKeyCreate;
    const [listed] = (await app().as(maintainer).get(keys)).body;
    expect(clientKey).toEqual({
      id: `gid://gitlab/ErrorTracking::ClientKey/${listed.id}`,
      active: true,
      publicKey: listed.public_key,
      sentryDsn: listed.sentry_dsn,
      createdAt: expect.any(String),
    });
    expect((await graphql(maintainer, QUERY, { path })).data.project.errorTracking).toEqual({
      enabled: true,
      integrated: true,
      clientKeys: [clientKey],
    });

    const update = `mutation ($path: ID!, $enabled: Boolean, $integrated: Boolean) {
      errorTrackingSettingsUpdate(input: { projectPath: $path, enabled: $enabled, integrated: $integrated }) {
        errorTracking { enabled integrated clientKeys { id } } errors } }`;
    expect((await graphql(maintainer, update, { path, enabled: false, integrated: true })).data).toEqual({
      errorTrackingSettingsUpdate: {
        errorTracking: { enabled: false, integrated: true, clientKeys: [] },
        errors: [],
      },
    });
    await graphql(maintainer, update, { path, enabled: true });

    const destroyed = await graphql(
      maintainer,
      `mutation ($path: ID!, $id: ErrorTrackingClientKeyID!) {
        errorTrackingClientKeyDestroy(input: { projectPath: $path, id: $id }) { clientKey { id } errors } }`,
      { path, id: clientKey.id },
    );
    expect(destroyed.data.errorTrackingClientKeyDestroy).toEqual({ clientKey: { id: clientKey.id }, errors: [] });
    expect((await app().as(maintainer).get(keys)).body).toEqual([]);
  });

  it('hides the keys from callers below Maintainer, and all of it from those below Reporter', async () => {
    const { project } = await setUp();
    const shown = async (level: number) => {
      const member = await app().make.user();
      await app().make.projectMember(project, member, level);
      return (await graphql(member, QUERY, { path: project.path_with_namespace })).data.project.errorTracking;
    };
    expect(await shown(30)).toEqual({ enabled: true, integrated: true, clientKeys: null });
    expect(await shown(10)).toBeNull();
  });
});
