import { describe, expect, it } from 'vitest';
import { attributeNames } from '#domains/projects/attributes.ts';
import { dropUnclaimedAvatar } from '#domains/users/avatar.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { png } from '../support/pictures.ts';

const app = useApp();

/** For each setting, a value that differs from the default of a new project. */
const others: Record<string, unknown> = {
  description: 'another',
  topics: ['one', 'two'],
  issues_access_level: 'private',
  repository_access_level: 'private',
  merge_requests_access_level: 'private',
  forking_access_level: 'disabled',
  wiki_access_level: 'disabled',
  builds_access_level: 'private',
  snippets_access_level: 'disabled',
  pages_access_level: 'public',
  analytics_access_level: 'disabled',
  container_registry_access_level: 'private',
  security_and_compliance_access_level: 'enabled',
  requirements_access_level: 'private',
  merge_method: 'ff',
  squash_option: 'always',
  suggestion_commit_message: 'suggested',
  merge_commit_template: 'merged %{title}',
  squash_commit_template: 'squashed',
  issue_branch_template: 'issue-%{id}',
  merge_request_title_regex: '^[A-Z]',
  merge_request_title_regex_description: 'Begins with a capital',
  only_allow_merge_if_pipeline_succeeds: true,
  allow_merge_on_skipped_pipeline: true,
  only_allow_merge_if_all_discussions_are_resolved: true,
  remove_source_branch_after_merge: false,
  resolve_outdated_diff_discussions: true,
  printing_merge_request_link_enabled: false,
  autoclose_referenced_issues: false,
  request_access_enabled: false,
  approvals_before_merge: 2,
  ci_config_path: '.ci/main.yml',
  build_coverage_regex: 'Covered: (\\d+)%',
  ci_default_git_depth: 5,
  ci_forward_deployment_enabled: false,
  ci_forward_deployment_rollback_allowed: false,
  ci_allow_fork_pipelines_to_run_in_parent_project: false,
  ci_job_token_scope_enabled: true,
  ci_separated_caches: false,
  ci_push_repository_for_job_token_allowed: true,
  ci_restrict_pipeline_cancellation_role: 'no_one',
  ci_pipeline_variables_minimum_override_role: 'owner',
  restrict_user_defined_variables: true,
  auto_cancel_pending_pipelines: 'disabled',
  auto_devops_enabled: true,
  auto_devops_deploy_strategy: 'manual',
  build_timeout: 7_200,
  build_git_strategy: 'clone',
  public_jobs: false,
  shared_runners_enabled: false,
  group_runners_enabled: false,
  runner_token_expiration_interval: 86_400,
  keep_latest_artifact: false,
  merge_pipelines_enabled: true,
  packages_enabled: false,
  service_desk_enabled: true,
  emails_enabled: false,
  lfs_enabled: false,
  enforce_auth_checks_on_uploads: false,
  warn_about_potentially_unwanted_characters: false,
  mr_default_target_self: true,
  external_authorization_classification_label: 'secret',
};

describe('PUT /projects/:id', () => {
  it('writes every setting, as JSON and as a form, and reads it back', async () => {
    const missing = attributeNames.filter((name) => !(name in others) && name !== 'container_expiration_policy');
    expect(missing).toEqual([]);
    const owner = await app().make.user();
    const client = app().as(owner);
    const [one, two] = [await app().make.project({}, owner), await app().make.project({}, owner)];
    const before = (await client.get(`/projects/${one.id}`)).body;
    for (const [name, value] of Object.entries(others)) expect([name, before[name]]).not.toEqual([name, value]);
    expect((await client.put(`/projects/${one.id}`, others)).status).toBe(200);
    expect((await client.get(`/projects/${one.id}`)).body).toMatchObject(others);
    const form = new URLSearchParams();
    for (const [name, value] of Object.entries(others)) {
      if (Array.isArray(value)) for (const each of value) form.append(`${name}[]`, String(each));
      else form.set(name, String(value));
    }
    expect((await client.put(`/projects/${two.id}`, form)).status).toBe(200);
    expect((await client.get(`/projects/${two.id}`)).body).toMatchObject(others);
  });

  it('replaces the expiration policy, as JSON and as a form', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const put = (body: Record<string, unknown> | URLSearchParams) =>
      app().as(owner).put(`/projects/${project.id}`, body);
    const policy = {
      cadence: '14d',
      enabled: true,
      keep_n: 5,
      older_than: null,
      name_regex: 'v.*',
      name_regex_keep: 'k',
    };
    const shown = { ...policy, next_run_at: expect.stringMatching(/^\d{4}-/) };
    expect((await put({ container_expiration_policy: policy })).body.container_expiration_policy).toEqual(shown);
    expect((await put({ container_expiration_policy: {} })).body.container_expiration_policy.enabled).toBe(false);
    const form = new URLSearchParams(
      Object.entries(policy).map(([name, value]) => [`container_expiration_policy[${name}]`, String(value ?? '')]),
    );
    expect((await put(form)).body.container_expiration_policy).toEqual(shown);
    const words = { ...policy, enabled: 'True', keep_n: '5' };
    expect((await put({ container_expiration_policy: words })).body.container_expiration_policy).toEqual(shown);
    const wrong = { enabled: 'perhaps', keep_n: '-1', cadence: '' };
    expect((await put({ container_expiration_policy: wrong })).body.message).toEqual({
      container_expiration_policy: [
        'cadence does not have a valid value (allowed: 1d, 7d, 14d, 1month, 3month)',
        'enabled is invalid',
        'keep_n must be greater than or equal to 0',
      ],
    });
  });

  it('accepts older names, and prefers the current name', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const put = async (body: Record<string, unknown>) =>
      (await app().as(owner).put(`/projects/${project.id}`, body)).body;
    expect(await put({ emails_disabled: true })).toMatchObject({ emails_disabled: true, emails_enabled: false });
    expect(await put({ emails_disabled: true, emails_enabled: true })).toMatchObject({ emails_enabled: true });
    expect(await put({ container_registry_enabled: false })).toMatchObject({
      container_registry_access_level: 'disabled',
      container_registry_enabled: false,
    });
    expect(await put({ container_registry_enabled: false, container_registry_access_level: 'private' })).toMatchObject({
      container_registry_access_level: 'private',
      container_registry_enabled: true,
    });
    expect(await put({ tag_list: 'a, b' })).toMatchObject({ topics: ['a', 'b'], tag_list: ['a', 'b'] });
    expect(await put({ tag_list: ['a'], topics: ['c'] })).toMatchObject({ topics: ['c'] });
    expect(await put({ public_builds: false })).toMatchObject({ public_jobs: false });
  });

  it('changes parts of the expiration policy, and shows its next run', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const put = (policy: Record<string, unknown>) =>
      app().as(owner).put(`/projects/${project.id}`, { container_expiration_policy_attributes: policy });
    const usual = (await app().as(owner).get(`/projects/${project.id}`)).body.container_expiration_policy;
    const on = (await put({ enabled: 'true', keep_n: '5', name_regex_delete: 'v.*', cadence: '7d' })).body
      .container_expiration_policy;
    expect(on).toEqual({
      ...usual,
      enabled: true,
      keep_n: 5,
      name_regex: 'v.*',
      cadence: '7d',
      next_run_at: expect.stringMatching(/^\d{4}-/),
    });
    const days = (Date.parse(on.next_run_at) - Date.now()) / 86_400_000;
    expect(days).toBeGreaterThan(6.9);
    expect(days).toBeLessThan(7.1);
    expect((await put({ keep_n: '' })).body.container_expiration_policy).toEqual({ ...on, keep_n: null });
    expect(await put({ cadence: 'daily', keep_n: -1 })).toMatchObject({
      status: 400,
      body: {
        message: {
          container_expiration_policy: [
            'cadence does not have a valid value (allowed: 1d, 7d, 14d, 1month, 3month)',
            'keep_n must be greater than or equal to 0',
          ],
        },
      },
    });
    expect((await put({ enabled: false })).body.container_expiration_policy.next_run_at).toBeNull();
  });

  it('refuses an empty change, unsupported features and invalid values', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const project = await app().make.project({}, owner);
    const put = (body: Record<string, unknown>) => client.put(`/projects/${project.id}`, body);
    for (const body of [{}, { unknown: 1 }]) {
      const { status, body: answer } = await put(body);
      expect([status, answer.error]).toEqual([400, expect.stringContaining('at least one parameter must be provided')]);
    }
    expect(await put({ description: 'x', mirror: true })).toMatchObject({
      status: 400,
      body: { error: 'mirror is not supported: repositories are not mirrored here' },
    });
    expect((await put({ description: 'y', mirror: false })).status).toBe(200);
    expect(await put({ build_timeout: 1, description: 'z' })).toMatchObject({
      status: 400,
      body: { message: { build_timeout: ['must be greater than or equal to 600'] } },
    });
    expect((await put({ squash_option: 'sometimes' })).status).toBe(400);
    expect((await client.get(`/projects/${project.id}`)).body).toMatchObject({ description: 'y', build_timeout: 3600 });
    for (const name of ['template_name', 'template_project_id', 'use_custom_template']) {
      const refused = await client.post('/projects', { path: 'from-template', [name]: '1' });
      expect([refused.status, refused.body.error]).toEqual([400, expect.stringContaining(`${name} is not supported`)]);
    }
    expect((await client.get(`/projects/${encodeURIComponent(`${owner.username}/from-template`)}`)).status).toBe(404);
  });

  it('lets only administrators change the repository storage', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const put = (user: TestUser, repository_storage: string) =>
      app().as(user).put(`/projects/${project.id}`, { repository_storage });
    expect((await put(owner, 'default')).status).toBe(403);
    expect((await put(app().root, 'default')).status).toBe(200);
    expect(await put(app().root, 'elsewhere')).toMatchObject({
      status: 400,
      body: { message: { repository_storage: ['is not included in the list'] } },
    });
  });

  it('never makes a project more visible than its group', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({ visibility: 'internal' }, owner);
    const project = await app().make.project({ namespace_id: group.id }, owner);
    const put = (visibility: string) => app().as(owner).put(`/projects/${project.id}`, { visibility });
    expect((await put('public')).status).toBe(400);
    expect((await put('internal')).body.visibility).toBe('internal');
  });

  it('changes the settings of an archived project, but not its contents', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const project = await app().make.project({}, owner);
    await client.post(`/projects/${project.id}/archive`);
    expect((await client.put(`/projects/${project.id}`, { description: 'kept for history' })).status).toBe(200);
    expect((await client.post(`/projects/${project.id}/issues`, { title: 'x' })).status).toBe(403);
  });
});

const form = (bytes: Buffer | string): FormData => {
  const data = new FormData();
  data.set('avatar', new Blob([typeof bytes === 'string' ? bytes : new Uint8Array(bytes)]), 'project.html');
  return data;
};
const fetchAs = async (user: TestUser | null, url: string) =>
  fetch(url, { headers: user ? { 'private-token': await app().tokenOf(user) } : {} });

describe('the avatar of a project', () => {
  it('is set and removed by Maintainers, and shown to everyone who may see the project', async () => {
    const { make } = app();
    const [owner, developer, stranger] = [await make.user(), await make.user(), await make.user()];
    const project = await make.project({}, owner);
    await make.projectMember(project, developer, 30);
    const put = (user: TestUser, body: FormData) => app().as(user).put(`/projects/${project.id}`, body);
    expect((await put(developer, form(png()))).status).toBe(403);
    expect((await put(stranger, form(png()))).status).toBe(404);
    const { status, body } = await put(owner, form(png()));
    expect(status).toBe(200);
    expect(body.avatar_url).toMatch(new RegExp(`/uploads/-/system/project/avatar/${project.id}/[\\w-]+\\.png$`));
    const shown = await fetchAs(developer, body.avatar_url);
    expect(shown.status).toBe(200);
    expect(shown.headers.get('content-type')).toBe('image/png');
    expect(shown.headers.get('content-security-policy')).toContain('sandbox');
    expect((await fetchAs(stranger, body.avatar_url)).status).toBe(404);
    expect((await fetchAs(null, body.avatar_url)).status).toBe(404);
    const event = await app()
      .hub.services.db.selectFrom('events')
      .select('payload')
      .where('kind', '=', 'project.updated')
      .where('subject_id', '=', project.id)
      .executeTakeFirstOrThrow();
    expect(event.payload).toMatchObject({ changes: { avatar_key: { previous: null, current: null } } });
    const { avatar_key } = await app()
      .hub.services.db.selectFrom('projects')
      .select('avatar_key')
      .where('id', '=', project.id)
      .executeTakeFirstOrThrow();
    // The job that deletes unclaimed avatars keeps this one.
    await dropUnclaimedAvatar.run(app().context(), { key: avatar_key ?? '' }, { attempt: 1, lastAttempt: false });
    expect((await fetchAs(owner, body.avatar_url)).status).toBe(200);
    const changed = await put(owner, form(png({ width: 9, height: 9 })));
    expect(changed.body.avatar_url).not.toBe(body.avatar_url);
    expect((await fetchAs(owner, body.avatar_url)).status).toBe(404);
    const empty = new FormData();
    empty.set('avatar', '');
    expect((await put(owner, empty)).body.avatar_url).toBeNull();
    expect((await fetchAs(owner, changed.body.avatar_url)).status).toBe(404);
  });

  it.each(['<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>', 'x'.repeat(300 * 1024)])(
    'must be an image of at most 200 KiB',
    async (content) => {
      const owner = await app().make.user();
      const project = await app().make.project({}, owner);
      expect((await app().as(owner).put(`/projects/${project.id}`, form(content))).status).toBe(400);
      expect((await app().as(owner).get(`/projects/${project.id}`)).body.avatar_url).toBeNull();
    },
  );

  it('can be uploaded with a new project, and appears in REST and GraphQL', async () => {
    const owner = await app().make.user();
    const body = form(png());
    body.set('path', 'pictured');
    body.set('visibility', 'public');
    const made = await app().as(owner).post('/projects', body);
    expect(made.status).toBe(201);
    const shown = await fetchAs(null, made.body.avatar_url);
    expect([shown.status, shown.headers.get('cache-control')]).toEqual([200, 'public, max-age=31536000, immutable']);
    const { data } = await app().anonymous.graphql(`{ project(fullPath: "${owner.username}/pictured") { avatarUrl } }`);
    expect(data.project.avatarUrl).toBe(made.body.avatar_url);
    const removed = await app()
      .as(owner)
      .graphql(
        `mutation { projectUpdate(input: { fullPath: "${owner.username}/pictured", removeAvatar: true }) {
          errors project { avatarUrl } } }`,
      );
    expect(removed.data.projectUpdate).toEqual({ errors: [], project: { avatarUrl: null } });
  });
});

it('takes an empty default_branch as none, when a project is created and when it is changed', async () => {
  const owner = await app().make.user();
  const { body: project } = await app()
    .as(owner)
    .post('/projects', { name: 'no-branch', default_branch: '', initialize_with_readme: true });
  expect(project.default_branch).toBe('main');
  const form = new URLSearchParams({ default_branch: '', description: 'new' });
  expect(await app().as(owner).put(`/projects/${project.id}`, form)).toMatchObject({
    status: 200,
    body: { default_branch: 'main', description: 'new' },
  });
});
