import { describe, expect, it } from 'vitest';
import { settingsSchema } from '#domains/settings/registry.ts';
import { settingsTable } from '#domains/settings/table.ts';
import { useApp } from '../support/app.ts';

const app = useApp();
const admin = () => app().as(app().root);
const PATH = '/application/settings';

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
      { message: { default_branch_protection_defaults: [expect.any(String)] } },
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

  it('has every setting in the documented table', () => {
    for (const name of Object.keys(settingsSchema.shape)) expect(settingsTable()).toContain(`| \`${name}\` |`);
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
});
