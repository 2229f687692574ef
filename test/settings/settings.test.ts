import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { startHub } from '#app/build.ts';
import { Api } from '#cli/api.ts';
import { getSettings, setSettings } from '#cli/settings.ts';
import { forgetSettings, getSecretSetting, getSettings as getStored } from '#domains/settings/queries.ts';
import { settingsSchema } from '#domains/settings/registry.ts';
import { settingsTables } from '#domains/settings/table.ts';
import { readConfig } from '#platform/config/config.ts';
import { createLogger } from '#platform/log.ts';
import { useApp } from '../support/app.ts';
import { Client } from '../support/client.ts';
import { until } from '../support/until.ts';

const app = useApp();
const admin = () => app().as(app().root);
const PATH = '/application/settings';

it('can be read again by transactions that hold all connections', async () => {
  await app().settle();
  const { services } = app().hub;
  const all = services.pool.options.max;
  let begun = 0;
  const read = await Promise.all(
    Array.from({ length: all }, () =>
      app()
        .context()
        .transaction(async (tx) => {
          begun += 1;
          if (begun === all) forgetSettings(services);
          await until('all connections are in use', () => begun === all);
          return (await getStored(tx)).id;
        }),
    ),
  );
  expect(read).toEqual(Array.from({ length: all }, () => 1));
});

describe('the settings API', () => {
  it('returns all settings under all their names', async () => {
    const { status, body } = await admin().get(PATH);
    expect(status).toBe(200);
    expect(Object.keys(body)).toEqual(expect.arrayContaining(Object.keys(settingsSchema.shape)));
    expect(body).toMatchObject({
      id: 1,
      max_import_size: 0,
      default_project_visibility: 'private',
      allow_local_requests_from_hooks_and_services: false,
      outbound_local_requests_allowlist_raw: '',
    });
  });

  it('shows a decimal number as text, and takes it back', async () => {
    const name = 'polling_interval_multiplier';
    for (const [sent, shown] of [
      [1.25, '1.25'],
      ['1.25', '1.25'],
      ['1.0', '1.0'],
      [1, '1.0'],
    ] as const) {
      expect((await admin().put(PATH, { [name]: sent })).body[name]).toBe(shown);
    }
    expect((await admin().put(PATH, { [name]: 'much' })).status).toBe(400);
  });

  it('changes settings by JSON, form or query, each in its own syntax', async () => {
    const json = await admin().put(PATH, { max_import_size: '50', default_project_visibility: 'internal', unknown: 1 });
    expect(json.body).toMatchObject({ max_import_size: 50, default_project_visibility: 'internal' });
    const form = await admin().put(
      PATH,
      new URLSearchParams([
        ['restricted_visibility_levels[]', 'public'],
        ['default_branch_protection_defaults[allow_force_push]', 'True'],
        ['default_branch_protection_defaults[allowed_to_push][][access_level]', '30'],
      ]),
    );
    expect(form.body).toMatchObject({
      restricted_visibility_levels: ['public'],
      default_branch_protection_defaults: { allow_force_push: true, allowed_to_push: [{ access_level: 30 }] },
    });
    const partial = await admin().put(PATH, {
      default_branch_protection_defaults: { developer_can_initial_push: true },
    });
    expect(partial.body.default_branch_protection_defaults).toMatchObject({
      allow_force_push: true,
      allowed_to_push: [{ access_level: 30 }],
      developer_can_initial_push: true,
    });
    const query = await admin().put(`${PATH}?restricted_visibility_levels[]=&max_import_size=0`);
    expect(query.body).toMatchObject({ restricted_visibility_levels: [], max_import_size: 0 });
    const alias = await admin().put(PATH, {
      allow_local_requests_from_hooks_and_services: true,
      outbound_local_requests_allowlist_raw: '10.0.0.1\nexample.test, ::1',
    });
    expect(alias.body).toMatchObject({
      allow_local_requests_from_web_hooks_and_services: true,
      outbound_local_requests_whitelist: ['10.0.0.1', 'example.test', '::1'],
      outbound_local_requests_allowlist_raw: '10.0.0.1\nexample.test\n::1',
    });
  });

  it.each([
    [{}, { message: '400 Bad request - at least one known setting must be provided' }],
    [{ nonsense: 1 }, { message: '400 Bad request - at least one known setting must be provided' }],
    [{ max_import_size: 'big' }, { error: 'max_import_size is invalid (allowed: a whole number)' }],
    [{ max_import_size: -1 }, { message: { max_import_size: [expect.any(String)] } }],
    [
      { minimum_password_length: 4, max_import_size: 1 },
      { message: { minimum_password_length: [expect.any(String)] } },
    ],
    [
      { default_project_visibility: 'secret' },
      { error: 'default_project_visibility does not have a valid value (allowed: private, internal, public)' },
    ],
    [
      { default_branch_protection_defaults: { allowed_to_push: [{ access_level: 7 }] } },
      { error: expect.stringContaining('allowed_to_push') },
    ],
  ])('refuses %j and changes nothing', async (wrong, expected) => {
    const { updated_at } = (await admin().get(PATH)).body;
    const { status, body } = await admin().put(PATH, wrong);
    expect([status, body]).toEqual([400, expected]);
    expect((await admin().get(PATH)).body.updated_at).toBe(updated_at);
  });

  it('requires an administrator', async () => {
    const user = app().as(await app().make.user());
    expect((await user.get(PATH)).status).toBe(403);
    expect((await user.put(PATH, { max_import_size: 1 })).status).toBe(403);
    expect((await app().anonymous.get(PATH)).status).toBe(401);
    expect((await app().anonymous.put(PATH, { max_import_size: 1 })).status).toBe(401);
    expect((await user.graphql('{ applicationSettings { maxImportSize } }')).data.applicationSettings).toBeNull();
    const mutation = 'mutation { applicationSettingsUpdate(input: { maxImportSize: 1 }) { errors } }';
    expect((await user.graphql(mutation)).errors).toHaveLength(1);
    expect((await admin().get(PATH)).body.max_import_size).toBe(0);
  });

  it('follows the same rules in GraphQL', async () => {
    const mutation = `mutation ($input: ApplicationSettingsUpdateInput!) { applicationSettingsUpdate(input: $input) {
      applicationSettings { maxExportSize outboundLocalRequestsWhitelist defaultBranchProtectionDefaults canCreateGroup } errors } }`;
    const { data } = await admin().graphql(mutation, {
      input: { maxExportSize: 9, outboundLocalRequestsWhitelist: [] },
    });
    expect(data.applicationSettingsUpdate).toMatchObject({
      applicationSettings: { maxExportSize: 9, outboundLocalRequestsWhitelist: [], canCreateGroup: true },
      errors: [],
    });
    expect((await admin().get(PATH)).body.max_export_size).toBe(9);
    const refused = await admin().graphql(mutation, { input: { maxExportSize: -1 } });
    expect(refused.data.applicationSettingsUpdate).toMatchObject({
      applicationSettings: null,
      errors: [expect.any(String)],
    });
  });

  it('has every setting in the documented tables', () => {
    for (const name of Object.keys(settingsSchema.shape)) expect(settingsTables()).toContain(`| \`${name}\` |`);
  });

  it('lists who changed which settings, for administrators', async () => {
    const other = await app().make.user();
    await admin().put(`/users/${other.id}`, { admin: true });
    await admin().put(PATH, { max_export_size: 0, max_import_size: 0 });
    await app().as(other).put(PATH, { max_import_size: 7, max_export_size: 0 });
    await admin().put(PATH, { max_import_size: 7 });
    await admin().put(PATH, { max_import_size: 0, spamcheck_api_key: 'audited-key' }, { sudo: String(other.id) });
    const query = `query ($after: String) { applicationSettingsChanges(first: 1, after: $after) {
      nodes { id username user { username } changed createdAt } pageInfo { endCursor hasNextPage } } }`;
    const first = (await admin().graphql(query)).data.applicationSettingsChanges;
    // The administrator acted as the other user. A repeated value is no change.
    expect(first.nodes).toEqual([
      {
        id: expect.stringMatching(/ApplicationSettingsChange\/\d+$/),
        username: 'root',
        user: { username: 'root' },
        changed: expect.arrayContaining(['max_import_size', 'spamcheck_api_key']),
        createdAt: expect.any(String),
      },
    ]);
    const { data } = await admin().graphql(query, { after: first.pageInfo.endCursor });
    expect(data.applicationSettingsChanges.nodes).toMatchObject([
      { username: other.username, user: { username: other.username }, changed: ['max_import_size'] },
    ]);
    await admin().put(`/users/${other.id}`, { admin: false });
    expect((await app().as(other).graphql(query)).data.applicationSettingsChanges).toBeNull();
    expect((await app().anonymous.graphql(query)).data.applicationSettingsChanges).toBeNull();
    await admin().delete(`/users/${other.id}?hard_delete=true`);
    await app().settle();
    const after = await admin().graphql(query, { after: first.pageInfo.endCursor });
    expect(after.data.applicationSettingsChanges.nodes).toMatchObject([{ username: other.username, user: null }]);
  });

  it('never shows a secret, and keeps it when its mask comes back', async () => {
    const name = 'asset_proxy_secret_key';
    const set = await admin().put(PATH, { [name]: 'very-secret-text' });
    expect(set.body[name]).toBe('********');
    await admin().put(PATH, { [name]: '********', max_export_size: 3 });
    expect(await getSecretSetting(app().context(), name)).toBe('very-secret-text');
    const { data } = await admin().graphql('{ applicationSettings { assetProxySecretKey spamcheckApiKey } }');
    expect(data.applicationSettings.assetProxySecretKey).toBe('********');
    for (const table of ['application_settings', 'events', 'setting_changes'] as const) {
      const { rows } = await app().hub.services.pool.query(`select * from ${table}`);
      expect(JSON.stringify(rows)).not.toContain('very-secret-text');
    }
    const events = await app()
      .hub.services.db.selectFrom('events')
      .select('payload')
      .where('kind', '=', 'settings.updated')
      .orderBy('id', 'desc')
      .limit(2)
      .execute();
    expect(events.map(({ payload }) => payload)).toEqual([{ changed: ['max_export_size'] }, { changed: [name] }]);
    const cleared = await admin().put(PATH, { [name]: '', max_export_size: 0 });
    expect(cleared.body[name]).toBeNull();
    expect(await getSecretSetting(app().context(), name)).toBeNull();
    // The mask does not take precedence over a new value under another name.
    await admin().put(PATH, { spamcheck_api_key: '********', akismet_api_key: 'other-name' });
    expect(await getSecretSetting(app().context(), 'spamcheck_api_key')).toBe('other-name');
    await admin().put(PATH, { spamcheck_api_key: '' });
    // An empty text clears a date too.
    await admin().put(PATH, { api_v4_sunset_on: '2030-01-01' });
    expect((await admin().put(PATH, { api_v4_sunset_on: '' })).body.api_v4_sunset_on).toBeNull();
  });

  it('takes effect in another process within a second', async () => {
    const { config } = app().hub.services;
    const second = await startHub({
      config: readConfig([], {
        DATABASE_URL: config.databaseUrl ?? '',
        MILLRACE_DATA_DIR: config.dataDir,
        MILLRACE_PORT: '0',
        MILLRACE_ROLE: 'web',
      }),
      log: createLogger('silent'),
    });
    try {
      const elsewhere = new Client(second.url, () => app().tokenOf(app().root));
      for (const value of [11, 12, 13, 0]) {
        await admin().put(PATH, { max_export_size: value });
        await until('the other process has the new value', async () => {
          const { body } = await elsewhere.get(PATH);
          return body.max_export_size === value ? true : undefined;
        });
      }
    } finally {
      await second.close();
    }
  });

  it('is shown and changed on the command line', async () => {
    const api = new Api(app().url, await app().tokenOf(app().root));
    expect(await getSettings(api, 'asciidoc_max_includes')).toEqual(['32']);
    const all = await getSettings(api);
    expect(all).toEqual(expect.arrayContaining(['asciidoc_max_includes=32', 'domain_allowlist=[]']));
    const set = await setSettings(api, [
      'asciidoc_max_includes=64',
      'domain_denylist=a.example b.example',
      'default_branch_protection_defaults[allow_force_push]=true',
      'terms=a=b',
    ]);
    expect(set).toEqual([
      'asciidoc_max_includes=64',
      'domain_denylist=["a.example","b.example"]',
      expect.stringContaining('"allow_force_push":true'),
      'terms=a=b',
    ]);
    const printed = [
      'domain_denylist=["a.example"]',
      'runner_token_expiration_interval=null',
      'default_branch_protection_defaults={"allow_force_push":false}',
      'terms=[in brackets]',
    ];
    expect(await setSettings(api, printed)).toEqual([
      ...printed.slice(0, 2),
      expect.stringContaining('"allow_force_push":false'),
      'terms=[in brackets]',
    ]);
    await setSettings(api, ['terms=a=b']);
    const refusals: readonly [assignments: string[], message: RegExp][] = [
      [['asciidoc_max_includes=65', 'terms=x'], /asciidoc_max_includes.*must be less than or equal to 64/],
      [['no_such_setting=1'], /There is no setting no_such_setting/],
      [['terms'], /terms is not of the form NAME=VALUE/],
    ];
    for (const [assignments, message] of refusals) {
      await expect(setSettings(api, assignments)).rejects.toThrow(message);
    }
    await expect(getSettings(api, 'no_such_setting')).rejects.toThrow('There is no setting no_such_setting');
    expect(await getSettings(api, 'terms')).toEqual(['a=b']);
    const reset = ['asciidoc_max_includes=32', 'domain_denylist=', 'terms=', 'default_branch_protection=2'];
    await setSettings(api, reset);
  });
});

describe('a stored value that is not valid any more', () => {
  it('counts as the default, and can be set again', async () => {
    const { services } = app().hub;
    const attributes = { asciidoc_max_includes: 'many', globally_allowed_ips: '10.1', terms: 'kept' };
    await sql`update application_settings set attributes = attributes || ${JSON.stringify(attributes)}::jsonb`.execute(
      services.db,
    );
    forgetSettings(services);
    expect((await admin().get(PATH)).body).toMatchObject({ asciidoc_max_includes: 32, terms: 'kept' });
    expect(
      (await admin().put(PATH, { asciidoc_max_includes: 31, globally_allowed_ips: '', terms: '' })).body,
    ).toMatchObject({ asciidoc_max_includes: 31, terms: '' });
    await admin().put(PATH, { asciidoc_max_includes: 32 });
  });
});

describe('the group of the performance bar', () => {
  const NAME = 'performance_bar_allowed_group_id';
  const shown = async () => (await admin().get(PATH)).body[NAME];
  const set = (values: Record<string, unknown>) => admin().put(PATH, values);

  it('is unset when it is deleted, by itself, with the group above or with its owner', async () => {
    await set({ deletion_adjourned_period: 0 });
    const user = await app().make.user();
    const [alone, above, own] = [await app().make.group(), await app().make.group(), await app().make.group({}, user)];
    const below = await app().make.group({ parent_id: above.id });
    for (const [group, path] of [
      [alone, `/groups/${alone.id}`],
      [below, `/groups/${above.id}`],
      [own, `/users/${user.id}?hard_delete=true`],
    ] as const) {
      expect((await set({ [NAME]: group.id })).body[NAME]).toBe(group.id);
      await admin().delete(`/groups/${(await app().make.group()).id}`);
      await app().settle();
      expect(await shown()).toBe(group.id);
      expect((await admin().delete(path)).status).toBeLessThan(300);
      await app().settle();
      expect(await shown()).toBeNull();
    }
    const { data } = await admin().graphql('{ applicationSettingsChanges(first: 1) { nodes { changed } } }');
    expect(data.applicationSettingsChanges.nodes).toEqual([{ changed: [NAME] }]);
    await set({ deletion_adjourned_period: 7 });
  });

  it('stays while the group is only marked for deletion', async () => {
    const group = await app().make.group();
    await set({ [NAME]: group.id });
    expect((await admin().delete(`/groups/${group.id}`)).status).toBe(202);
    expect(await shown()).toBe(group.id);
    await set({ [NAME]: null });
  });
});

describe('the project of file templates', () => {
  const NAME = 'file_template_project_id';
  const shown = async () => (await admin().get(PATH)).body[NAME];
  const set = (values: Record<string, unknown>) => admin().put(PATH, values);

  it('is unset when it is deleted, by itself or with its group or its owner', async () => {
    await set({ deletion_adjourned_period: 0 });
    const user = await app().make.user();
    const group = await app().make.group();
    const alone = await app().make.project();
    const inGroup = await app().make.project({ namespace_id: group.id });
    const ofUser = await app().make.project({}, user);
    for (const [project, path] of [
      [alone, `/projects/${alone.id}`],
      [inGroup, `/groups/${group.id}`],
      [ofUser, `/users/${user.id}?hard_delete=true`],
    ] as const) {
      await set({ [NAME]: project.id });
      // Another project leaves it as it is.
      await admin().delete(`/projects/${(await app().make.project()).id}`);
      expect(await shown()).toBe(project.id);
      expect((await admin().delete(path)).status).toBeLessThan(300);
      await app().settle();
      expect(await shown()).toBeNull();
    }
    const events = await app()
      .hub.services.db.selectFrom('events')
      .select(['payload', 'actor_id'])
      .where('kind', '=', 'settings.updated')
      .orderBy('id', 'desc')
      .limit(1)
      .execute();
    expect(events).toEqual([{ payload: { changed: [NAME] }, actor_id: app().root.id }]);
    const { data } = await admin().graphql('{ applicationSettingsChanges(first: 1) { nodes { changed } } }');
    expect(data.applicationSettingsChanges.nodes).toEqual([{ changed: [NAME] }]);
    await set({ deletion_adjourned_period: 7 });
  });

  it('stays while the project is only marked for deletion', async () => {
    const project = await app().make.project();
    await set({ [NAME]: project.id });
    expect((await admin().delete(`/projects/${project.id}`)).status).toBe(202);
    expect(await shown()).toBe(project.id);
    await set({ [NAME]: null });
  });
});

describe('metadata', () => {
  it('shows the version to signed-in users', async () => {
    const user = app().as(await app().make.user(), ['read_user']);
    const version = (await user.get('/version')).body;
    expect(version).toEqual({ version: expect.stringMatching(/^17\.\d+\.\d+$/), revision: expect.any(String) });
    expect((await user.get('/metadata')).body).toMatchObject({
      ...version,
      enterprise: false,
      kas: { enabled: false },
    });
    expect((await app().anonymous.get('/version')).status).toBe(401);
    const { data } = await admin().graphql('{ metadata { version revision enterprise kas { enabled } } }');
    expect(data.metadata).toEqual({ ...version, enterprise: false, kas: { enabled: false } });
    expect((await app().anonymous.graphql('{ metadata { version } }')).data.metadata).toBeNull();
  });

  it('echoes a text to everybody', async () => {
    const echo = '{ echo(text: "hello") }';
    expect((await admin().graphql(echo)).data.echo).toBe('"root" says: hello');
    expect((await app().anonymous.graphql(echo)).data.echo).toBe('nil says: hello');
  });
});
