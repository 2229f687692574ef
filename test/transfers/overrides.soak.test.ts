import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, it } from 'vitest';
import { attributeAliases, attributeNames, featureSwitches } from '#domains/projects/attributes.ts';
import { useApp } from '../support/app.ts';
import { gitIn, packProject } from './archive.ts';
import { importArchive, runImport } from './support.ts';

const app = useApp();
let count = 0;
const path = () => `overridden${++count}`;
const fieldsOf = (params: Readonly<Record<string, string>>) =>
  Object.fromEntries(Object.entries(params).map(([name, value]) => [`override_params[${name}]`, value]));

/** The archive of a project with the branches main and develop. */
let archive: Buffer;
beforeAll(async () => {
  const directory = await mkdtemp(join(tmpdir(), 'overrides-'));
  try {
    gitIn(directory, 'init', '--quiet', '--initial-branch=main');
    await writeFile(join(directory, 'README.md'), 'Hello\n');
    gitIn(directory, 'add', '.');
    gitIn(directory, 'commit', '--quiet', '--message=First');
    gitIn(directory, 'branch', 'develop');
    gitIn(directory, 'bundle', 'create', '--quiet', 'project.bundle', '--all', 'HEAD');
    archive = await packProject({}, { 'project.bundle': await readFile(join(directory, 'project.bundle')) });
  } finally {
    await rm(directory, { recursive: true });
  }
});

describe('override_params of an import', () => {
  it('sets the default branch, the name and the parts of a policy', async () => {
    const owner = await app().make.user();
    const at = path();
    const record = await runImport(app(), owner, archive, {
      path: at,
      name: 'From the form',
      ...fieldsOf({
        name: 'Overridden',
        path: at,
        default_branch: 'develop',
        visibility_level: '10',
        archived: 'true',
        issues_enabled: 'false',
        emails_disabled: 'true',
        tag_list: 'a,b',
        'container_expiration_policy_attributes][cadence': '7d',
        'container_expiration_policy_attributes][enabled': 'true',
      }),
    });
    expect(record).toMatchObject({ import_status: 'finished', import_error: null });
    const { body } = await app().as(owner).get(`/projects/${record.id}`);
    expect(body).toMatchObject({
      name: 'Overridden',
      path: at,
      default_branch: 'develop',
      visibility: 'internal',
      archived: true,
      issues_access_level: 'disabled',
      emails_enabled: false,
      topics: ['a', 'b'],
      container_expiration_policy: { cadence: '7d', enabled: true, next_run_at: expect.any(String) },
    });
    const readme = await app().as(owner).get(`/projects/${record.id}/repository/branches/develop`);
    expect(readme.body).toMatchObject({ default: true });
  });

  it('takes every setting of a project, under each of its names', async () => {
    const owner = await app().make.user();
    const source = await app().make.project({}, owner);
    const read = async (id: number) => (await app().as(owner).get(`/projects/${id}`)).body;
    const { container_expiration_policy, ...record } = await read(source.id);
    const names = [...attributeNames, ...Object.keys(featureSwitches), ...Object.keys(attributeAliases)];
    const sent = Object.fromEntries(
      names.flatMap((name) => (record[name] === null || record[name] === undefined ? [] : [[name, record[name]]])),
    );
    expect(Object.keys(sent).length).toBeGreaterThan(50);
    const policy = { 'container_expiration_policy][keep_n': '5', 'container_expiration_policy][enabled': 'True' };
    const changed = { ...sent, ...policy, merge_method: 'ff', topics: ['x'], build_timeout: 900, description: 'Other' };
    const created = await runImport(app(), owner, archive, {
      path: path(),
      ...fieldsOf(Object.fromEntries(Object.entries(changed).map(([name, value]) => [name, String(value)]))),
    });
    expect(created).toMatchObject({ import_status: 'finished', import_error: null });
    const imported = await read(created.id);
    expect(imported).toMatchObject({
      merge_method: 'ff',
      topics: ['x'],
      build_timeout: 900,
      description: 'Other',
      container_expiration_policy: { cadence: container_expiration_policy.cadence, keep_n: 5, enabled: true },
    });
    for (const name of ['squash_option', 'ci_default_git_depth', 'public_jobs', 'wiki_access_level'])
      expect(imported[name], name).toEqual(record[name]);
  });

  it.each([
    [{ creator_id: '1' }, { creator_id: ['cannot be overridden by an import'] }],
    [{ avatar: 'x' }, { avatar: ['cannot be overridden by an import'] }],
    [{ mirror: 'true' }, { mirror: ['cannot be overridden by an import'] }],
    [{ visibility: 'secret' }, { visibility: [expect.stringContaining('does not have a valid value')] }],
    [{ visibility_level: '15' }, { visibility_level: [expect.stringContaining('valid value (allowed: 0, 10, 20)')] }],
    [{ archived: 'maybe' }, { archived: ['is invalid'] }],
    [{ issues_enabled: 'maybe' }, { issues_enabled: ['is invalid'] }],
    [{ default_branch: 'a..b' }, { default_branch: ['is invalid'] }],
    [{ path: 'elsewhere' }, { path: ['differs from the path of the import'] }],
    [
      { 'container_expiration_policy_attributes][cadence': '2d' },
      { container_expiration_policy: [expect.stringContaining('cadence does not have a valid value')] },
    ],
    [{ container_expiration_policy_attributes: '7d' }, { container_expiration_policy_attributes: ['is invalid'] }],
  ])('refuses %j', async (params, message) => {
    const owner = await app().make.user();
    const { status, body } = await importArchive(app(), owner, archive, { path: path(), ...fieldsOf(params) });
    expect([status, body]).toEqual([400, { message }]);
    expect((await app().as(owner).get(`/users/${owner.id}/projects`)).body).toEqual([]);
  });

  it('lets only administrators name the storage', async () => {
    const owner = await app().make.user();
    const start = (user: typeof owner, storage: string) =>
      importArchive(app(), user, archive, { path: path(), ...fieldsOf({ repository_storage: storage }) });
    expect((await start(owner, 'default')).status).toBe(403);
    expect((await start(app().root, 'other')).status).toBe(400);
    expect((await start(app().root, 'default')).status).toBe(201);
    await app().settle();
  });

  it('fails with a reason when the archive lacks the default branch, and names the branch of an empty one', async () => {
    const owner = await app().make.user();
    const params = fieldsOf({ default_branch: 'trunk' });
    expect(await runImport(app(), owner, archive, { path: path(), ...params })).toMatchObject({
      import_status: 'failed',
      import_error: "The default branch could not be 'trunk': the archive has no such branch.",
    });
    const { id } = await runImport(app(), owner, await packProject(), { path: path(), ...params });
    expect((await app().as(owner).get(`/projects/${id}`)).body).toMatchObject({
      default_branch: 'trunk',
      empty_repo: true,
    });
  });
});
