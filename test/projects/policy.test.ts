import { describe, expect, it } from 'vitest';
import { attributesFromArchive, attributesToArchive } from '#domains/projects/archive.ts';
import { readAttributes } from '#domains/projects/attributes.ts';
import { nextIid, raiseIid } from '#domains/projects/insert.ts';
import { readOverrides } from '#domains/projects/overrides.ts';
import { can, type JudgedProject, type ProjectAbility, requireAbility } from '#domains/projects/policy.ts';
import { getProject } from '#domains/projects/queries.ts';
import { type Actor, anonymous } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { useApp } from '../support/app.ts';

const base: JudgedProject = {
  access_level: 0,
  visibility_level: 0,
  archived: false,
  marked_for_deletion_on: null,
  public_jobs: true,
  issues_access_level: 'enabled',
  repository_access_level: 'enabled',
  merge_requests_access_level: 'enabled',
  builds_access_level: 'enabled',
  snippets_access_level: 'enabled',
  wiki_access_level: 'enabled',
  forking_access_level: 'enabled',
};
const user: Actor = { ...anonymous, userId: 1, username: 'u' };
const external: Actor = { ...user, isExternal: true };

/** For each role, the abilities in a private project that start with it. */
const beginsAt: Record<number, readonly ProjectAbility[]> = {
  10: ['read_project', 'read_issue', 'create_issue', 'read_label', 'read_milestone', 'create_note', 'read_release'],
  15: ['admin_issue', 'read_confidential_issue', 'admin_label', 'admin_milestone'],
  20: ['read_code', 'read_merge_request', 'read_pipeline', 'read_statistics'],
  30: ['push_code', 'create_merge_request', 'admin_merge_request', 'create_pipeline', 'admin_release'],
  40: [
    'export',
    'update_settings',
    'admin_member',
    'admin_hook',
    'admin_protected_branch',
    'admin_note',
    'import_members',
  ],
  50: ['remove_project', 'change_visibility', 'archive_project', 'remove_issue'],
};

describe('can', () => {
  for (const [role, abilities] of Object.entries(beginsAt)) {
    it.each(abilities)(`%s needs level ${role} in a private project`, (ability) => {
      for (const level of [0, 10, 15, 20, 30, 40, 50]) {
        expect([level, can({ actor: user }, { ...base, access_level: level }, ability)]).toEqual([
          level,
          level >= Number(role),
        ]);
      }
    });
  }

  it.each<[ProjectAbility, boolean, boolean]>([
    ['read_project', true, true],
    ['read_code', true, true],
    ['read_issue', true, true],
    ['read_merge_request', true, true],
    ['read_pipeline', true, true],
    ['create_issue', false, true],
    ['create_note', false, true],
    ['push_code', false, false],
    ['read_confidential_issue', false, false],
    ['read_statistics', false, false],
    ['update_settings', false, false],
  ])('%s in a public project: anonymous %s, signed in %s', (ability, forAnonymous, forUser) => {
    const open = { ...base, visibility_level: 20 };
    expect(can({ actor: anonymous }, open, ability)).toBe(forAnonymous);
    expect(can({ actor: user }, open, ability)).toBe(forUser);
    expect(can({ actor: external }, open, ability)).toBe(forUser);
  });

  it('opens internal projects to users who are not external', () => {
    const internal = { ...base, visibility_level: 10 };
    expect(can({ actor: user }, internal, 'read_code')).toBe(true);
    expect(can({ actor: external }, internal, 'read_code')).toBe(false);
    expect(can({ actor: anonymous }, internal, 'read_code')).toBe(false);
    expect(can({ actor: external }, { ...internal, access_level: 20 }, 'read_code')).toBe(true);
  });

  it('limits features to members, or disables them', () => {
    const open = { ...base, visibility_level: 20 };
    const closed = { ...open, issues_access_level: 'private', repository_access_level: 'disabled' };
    expect(can({ actor: user }, closed, 'read_issue')).toBe(false);
    expect(can({ actor: user }, { ...closed, access_level: 10 }, 'read_issue')).toBe(true);
    expect(can({ actor: user }, { ...closed, access_level: 50 }, 'read_code')).toBe(false);
    expect(can({ actor: user }, { ...closed, access_level: 50 }, 'read_merge_request')).toBe(false);
    expect(can({ actor: user }, { ...open, public_jobs: false }, 'read_pipeline')).toBe(false);
    expect(can({ actor: user }, { ...open, public_jobs: false, access_level: 20 }, 'read_pipeline')).toBe(true);
  });

  it.each<[ProjectAbility, Partial<JudgedProject>, number]>([
    ['read_merge_request', { merge_requests_access_level: 'private' }, 20],
    ['read_merge_request', { repository_access_level: 'private' }, 20],
    ['create_merge_request_in', { merge_requests_access_level: 'private' }, 20],
    ['read_code', { repository_access_level: 'private' }, 20],
    ['fork_project', { forking_access_level: 'private' }, 10],
    ['fork_project', { repository_access_level: 'private' }, 20],
    ['read_pipeline', { builds_access_level: 'private' }, 20],
    ['read_issue', { issues_access_level: 'private' }, 10],
    ['create_issue', { issues_access_level: 'private' }, 10],
    ['read_wiki', { wiki_access_level: 'private' }, 10],
    ['read_snippet', { snippets_access_level: 'private' }, 10],
    ['read_label', { issues_access_level: 'private', merge_requests_access_level: 'private' }, 10],
    ['read_release', { repository_access_level: 'private' }, 10],
  ])('%s needs, if a public project limits %o to members, level %i', (ability, parts, role) => {
    for (const access_level of [0, 10, 15, 20, 30]) {
      const project = { ...base, ...parts, visibility_level: 20, access_level };
      expect([access_level, can({ actor: user }, project, ability)]).toEqual([access_level, access_level >= role]);
    }
  });

  it('allows no writes to an archived project', () => {
    const archived = { ...base, archived: true, access_level: 50 };
    for (const ability of ['push_code', 'create_issue', 'admin_label', 'create_note'] as const) {
      expect(can({ actor: user }, archived, ability)).toBe(false);
    }
    expect(can({ actor: user }, archived, 'read_code')).toBe(true);
    expect(can({ actor: user }, archived, 'remove_project')).toBe(true);
  });

  it('refuses with 403, or with 404 for a feature that the caller must not know of', () => {
    const codeOf = (actor: Actor, project: JudgedProject, ability: ProjectAbility) => {
      try {
        requireAbility({ actor }, project, ability);
        return null;
      } catch (error) {
        return error instanceof DomainError ? error.code : error;
      }
    };
    expect(codeOf(user, { ...base, access_level: 10 }, 'read_code')).toBe('forbidden');
    expect(codeOf(user, { ...base, visibility_level: 20, issues_access_level: 'private' }, 'read_issue')).toBe(
      'not_found',
    );
    expect(codeOf(anonymous, { ...base, visibility_level: 20 }, 'create_issue')).toBe('unauthenticated');
    expect(codeOf(user, { ...base, access_level: 20 }, 'read_code')).toBeNull();
  });
});

describe('settings', () => {
  it('reads switches, aliases and text, and prefers the current name', () => {
    expect(
      readAttributes({
        issues_enabled: 'False',
        wiki_enabled: true,
        wiki_access_level: 'private',
        public_builds: '0',
        tag_list: 'a, b',
        emails_disabled: 'yes',
        build_timeout: '900',
        unknown: 1,
        id: 7,
      }),
    ).toEqual({
      issues_access_level: 'disabled',
      wiki_access_level: 'private',
      public_jobs: false,
      topics: ['a', 'b'],
      emails_enabled: false,
      build_timeout: 900,
    });
    expect(readOverrides({ description: '', merge_method: 'ff' })).toEqual({ merge_method: 'ff' });
    expect(() => readAttributes({ squash_option: 'maybe' })).toThrow('Squash option does not have a valid value');
  });
});

const app = useApp();

it('keeps settings through an export and import', async () => {
  const owner = await app().make.user();
  const made = await app().make.project(
    {
      description: 'archived',
      merge_method: 'rebase_merge',
      public_jobs: false,
      issues_access_level: 'private',
      pages_access_level: 'public',
      ci_default_git_depth: 7,
      auto_devops_enabled: true,
      topics: 'x,y',
      container_expiration_policy: { enabled: true, cadence: '7d' },
    },
    owner,
  );
  const project = await getProject(app().context(owner), { id: made.id });
  const line = attributesToArchive(project, 'project');
  expect(line).toMatchObject({
    description: 'archived',
    public_builds: false,
    merge_requests_rebase_enabled: true,
    merge_requests_ff_only_enabled: false,
    visibility_level: 0,
    archived: false,
    build_allow_git_fetch: true,
  });
  expect(attributesToArchive(project, 'container_expiration_policy')).toMatchObject({ enabled: true, cadence: '7d' });
  expect(attributesToArchive(project, 'ci_cd_settings')).toMatchObject({ runner_token_expiration_interval: null });
  expect(line).not.toHaveProperty('lfs_enabled');
  expect(attributesToArchive(project, 'project_feature')).toMatchObject({
    issues_access_level: 10,
    pages_access_level: 30,
    wiki_access_level: 20,
  });
  const files = ['project', 'project_feature', 'ci_cd_settings', 'auto_devops', 'container_expiration_policy'] as const;
  const back = Object.assign(
    {},
    ...files.map((file) => attributesFromArchive(JSON.parse(JSON.stringify(attributesToArchive(project, file))), file)),
  );
  for (const [name, value] of Object.entries(back)) expect([name, value]).toEqual([name, Reflect.get(project, name)]);
  expect(Object.keys(back).length).toBeGreaterThan(55);
  expect(attributesFromArchive({ build_timeout: 'never', squash_option: 'always', junk: 1 }, 'project')).toEqual({
    squash_option: 'always',
  });
  // Other platforms say only whether to fetch.
  expect(attributesFromArchive({ build_allow_git_fetch: false }, 'project')).toEqual({ build_git_strategy: 'clone' });
  expect(attributesFromArchive({ build_allow_git_fetch: false, build_git_strategy: 'fetch' }, 'project')).toEqual({
    build_git_strategy: 'fetch',
  });
});

it('gives each number to one caller only', async () => {
  const owner = await app().make.user();
  const { id } = await app().make.project({}, owner);
  const ctx = app().context(owner);
  const take = (count?: number) => ctx.transaction((tx) => nextIid(tx, id, 'issue', count));
  const first = await Promise.all(Array.from({ length: 10 }, () => take()));
  expect(first.toSorted((a, b) => a - b)).toEqual([1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
  expect(await take(5)).toBe(11);
  expect(await take()).toBe(16);
  await ctx.transaction((tx) => raiseIid(tx, id, 'issue', 100));
  await ctx.transaction((tx) => raiseIid(tx, id, 'issue', 50));
  expect(await take()).toBe(101);
  expect(await ctx.transaction((tx) => nextIid(tx, id, 'milestone'))).toBe(1);
});
