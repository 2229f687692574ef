import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';

const app = useApp();
const db = () => app().hub.services.db;

// Specification 1 §2.7, and further fields that clients read (reference: conventions §9).
const SIMPLE =
  `id description name name_with_namespace path path_with_namespace created_at default_branch tag_list topics
  ssh_url_to_repo http_url_to_repo web_url readme_url forks_count avatar_url star_count last_activity_at namespace`.split(
    /\s+/,
  );
const FULL =
  `description_html updated_at container_registry_image_prefix import_url import_type import_status import_error
  ci_config_path merge_method squash_option suggestion_commit_message merge_commit_template squash_commit_template
  issue_branch_template merge_request_title_regex merge_request_title_regex_description auto_devops_deploy_strategy external_authorization_classification_label auto_cancel_pending_pipelines
  ci_restrict_pipeline_cancellation_role ci_pipeline_variables_minimum_override_role visibility issues_access_level
  repository_access_level merge_requests_access_level forking_access_level wiki_access_level builds_access_level
  snippets_access_level pages_access_level analytics_access_level container_registry_access_level
  security_and_compliance_access_level requirements_access_level packages_enabled empty_repo archived
  resolve_outdated_diff_discussions issues_enabled merge_requests_enabled wiki_enabled jobs_enabled snippets_enabled
  container_registry_enabled service_desk_enabled can_create_merge_request_in emails_disabled emails_enabled
  shared_runners_enabled group_runners_enabled lfs_enabled ci_forward_deployment_enabled
  ci_forward_deployment_rollback_allowed ci_allow_fork_pipelines_to_run_in_parent_project ci_job_token_scope_enabled
  ci_separated_caches ci_push_repository_for_job_token_allowed public_jobs only_allow_merge_if_pipeline_succeeds
  allow_merge_on_skipped_pipeline restrict_user_defined_variables request_access_enabled
  only_allow_merge_if_all_discussions_are_resolved remove_source_branch_after_merge printing_merge_request_link_enabled
  enforce_auth_checks_on_uploads auto_devops_enabled autoclose_referenced_issues keep_latest_artifact requirements_enabled
  security_and_compliance_enabled warn_about_potentially_unwanted_characters creator_id open_issues_count
  ci_default_git_depth build_timeout shared_with_groups compliance_frameworks runner_token_expiration_interval permissions
  container_expiration_policy _links marked_for_deletion_at marked_for_deletion_on service_desk_address
  mr_default_target_self`.split(/\s+/);

const read = async (client: Client, id: number, query = '') => (await client.get(`/projects/${id}${query}`)).body;

describe('the simple form', () => {
  it('has exactly these fields for anonymous callers and on request, alone and in lists', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ visibility: 'public', topics: 'simple-form' }, owner);
    const forms = [
      await read(app().anonymous, project.id),
      await read(app().anonymous, project.id, '?simple=false&statistics=true'),
      await read(app().as(owner), project.id, '?simple=true'),
      (await app().anonymous.get('/projects?topic=simple-form&statistics=true')).body[0],
      (await app().anonymous.get(`/users/${owner.id}/projects`)).body[0],
      (await app().as(owner).get('/projects?topic=simple-form&simple=true')).body[0],
    ];
    for (const form of forms) expect(Object.keys(form).sort()).toEqual([...SIMPLE].sort());
    expect(forms[0].namespace).toEqual({
      id: expect.any(Number),
      name: owner.username,
      path: owner.username,
      kind: 'user',
      full_path: owner.username,
      parent_id: null,
      avatar_url: null,
      web_url: `${app().url}/${owner.username}`,
    });
  });
});

describe('the full form', () => {
  it('has every field of the contract', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const record = await read(app().as(owner), project.id);
    expect([...SIMPLE, ...FULL].filter((name) => !(name in record))).toEqual([]);
    expect(record.owner).toEqual({
      id: owner.id,
      username: owner.username,
      name: expect.any(String),
      state: 'active',
      locked: false,
      avatar_url: null,
      web_url: `${app().url}/${owner.username}`,
      created_at: expect.stringMatching(/^\d{4}-\d{2}-\d{2}T.*Z$/),
    });
    expect(record._links).toEqual(
      Object.fromEntries(
        [
          ['self', ''],
          ...['issues', 'merge_requests', 'labels', 'events', 'members', 'cluster_agents'].map(
            (part) => [part, `/${part}`] as const,
          ),
          ['repo_branches', '/repository/branches'] as const,
        ].map(([name, path]) => [name, `${app().url}/api/v4/projects/${project.id}${path}`]),
      ),
    );
    expect(Object.keys(record.container_expiration_policy).sort()).toEqual([
      'cadence',
      'enabled',
      'keep_n',
      'name_regex',
      'name_regex_keep',
      'next_run_at',
      'older_than',
    ]);
    expect(record.compliance_frameworks).toEqual([]);
  });

  it('shows secrets and administrative fields only to the roles that may see them', async () => {
    const [owner, maintainer, developer] = [await app().make.user(), await app().make.user(), await app().make.user()];
    const project = await app().make.project({ visibility: 'public' }, owner);
    await app().make.projectMember(project, maintainer, 40);
    await app().make.projectMember(project, developer, 30);
    await db()
      .insertInto('project_imports')
      .values({ project_id: project.id, import_type: 'git', status: 'failed', import_error: 'it broke' })
      .execute();
    const shown = async (client: Client) => {
      const { runners_token, import_error, repository_storage } = await read(client, project.id);
      return [typeof runners_token, import_error, repository_storage];
    };
    expect(await shown(app().as(app().root))).toEqual(['string', 'it broke', 'default']);
    expect(await shown(app().as(owner))).toEqual(['string', 'it broke', undefined]);
    expect(await shown(app().as(maintainer))).toEqual(['string', 'it broke', undefined]);
    expect(await shown(app().as(developer))).toEqual(['undefined', null, undefined]);
    expect(await shown(app().as(await app().make.user()))).toEqual(['undefined', null, undefined]);
  });

  it('shows the level of the caller, by project and by group', async () => {
    const [owner, user] = [await app().make.user(), await app().make.user()];
    const group = await app().make.group({}, owner);
    const project = await app().make.project({ namespace_id: group.id }, owner);
    const permissions = async (client: Client) => (await read(client, project.id)).permissions;
    expect(await permissions(app().as(owner))).toEqual({
      project_access: null,
      group_access: { access_level: 50, notification_level: 3 },
    });
    await app().make.groupMember(group, user, 20);
    await app().make.projectMember(project, user, 30);
    expect(await permissions(app().as(user))).toEqual({
      project_access: { access_level: 30, notification_level: 3 },
      group_access: { access_level: 20, notification_level: 3 },
    });
    expect(await permissions(app().as(app().root))).toEqual({ project_access: null, group_access: null });
  });

  it('links only to features that the caller may use, and hides the code from callers who may not read it', async () => {
    const [owner, guest] = [await app().make.user(), await app().make.user()];
    const project = await app().make.project({ initialize_with_readme: true }, owner);
    await app().make.projectMember(project, guest, 10);
    const shown = async (client: Client) => {
      const record = await read(client, project.id);
      return [
        'issues' in record._links,
        'merge_requests' in record._links,
        record.open_issues_count,
        record.default_branch,
        record.readme_url,
      ];
    };
    const readme = `${app().url}/${project.path_with_namespace}/-/blob/main/README.md`;
    expect(await shown(app().as(owner))).toEqual([true, true, 0, 'main', readme]);
    expect(await shown(app().as(guest))).toEqual([true, false, 0, null, null]);
    await app().as(owner).put(`/projects/${project.id}`, { issues_access_level: 'disabled', visibility: 'public' });
    expect(await shown(app().as(owner))).toEqual([false, true, null, 'main', readme]);
    expect(await read(app().anonymous, project.id)).toMatchObject({ default_branch: 'main', readme_url: readme });
    await app()
      .as(owner)
      .put(`/projects/${project.id}`, { repository_access_level: 'private', merge_requests_access_level: 'private' });
    expect(await read(app().anonymous, project.id)).toMatchObject({ default_branch: null, readme_url: null });
    const query = `{ project(fullPath: "${project.path_with_namespace}") { defaultBranch readmeUrl } }`;
    expect((await app().anonymous.graphql(query)).data.project).toEqual({ defaultBranch: null, readmeUrl: null });
    expect((await app().as(owner).graphql(query)).data.project).toEqual({ defaultBranch: 'main', readmeUrl: readme });
  });

  it('encodes special characters in URLs', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({ initialize_with_readme: true, default_branch: 'a#1/%b' }, owner);
    const { readme_url } = await read(app().as(owner), project.id);
    expect(readme_url).toBe(`${app().url}/${project.path_with_namespace}/-/blob/a%231/%25b/README.md`);
  });

  it('counts open issues', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    const client = app().as(owner);
    for (const title of ['a', 'b']) await client.post(`/projects/${project.id}/issues`, { title });
    await client.put(`/projects/${project.id}/issues/1`, { state_event: 'close' });
    expect((await read(client, project.id)).open_issues_count).toBe(1);
  });
});

describe('the licence', () => {
  const MIT = `MIT License\n\nCopyright (c) 2026 Someone\n\nPermission is hereby granted, free of charge, to any person obtaining a copy
of this software and associated documentation files (the "Software"), to deal in the Software ...\n\nThe above copyright notice
and this permission notice shall be included in all\ncopies or substantial portions of the Software.`;
  const BSD = `Redistribution and use in source and binary forms, with or without\nmodification, are permitted provided that ...`;
  const ISC = `Permission to use, copy, modify, and/or distribute this software for any\npurpose with or without fee is hereby granted`;

  it.each([
    ['LICENSE', MIT, 'mit'],
    ['license.md', `# ${MIT}`, 'mit'],
    ['LICENCE.txt', 'Apache License\n   Version 2.0, January 2004\n http://www.apache.org/licenses/', 'apache-2.0'],
    ['COPYING', 'GNU GENERAL PUBLIC LICENSE\n Version 3, 29 June 2007', 'gpl-3.0'],
    ['COPYING.LESSER', 'GNU LESSER GENERAL PUBLIC LICENSE\n Version 2.1, February 1999', 'lgpl-2.1'],
    ['LICENSE', `Copyright\n${BSD} Neither the name of the copyright holder nor`, 'bsd-3-clause'],
    ['LICENSE', BSD, 'bsd-2-clause'],
    [
      'LICENSE',
      `${ISC}, provided that the above\ncopyright notice and this permission notice appear in all copies.`,
      'isc',
    ],
    ['LICENSE', `${ISC}.`, '0bsd'],
    ['UNLICENSE', 'This is free and unencumbered software released into the public domain.', 'unlicense'],
    ['LICENSE', 'All rights reserved.', 'other'],
  ])('is detected in %s, if the caller asks for it (%#)', async (file, text, key) => {
    const owner = await app().make.user();
    const project = await app().make.project({ visibility: 'public' }, owner);
    await commit(project.id, { [file]: text, 'src/LICENSE': 'x', 'LICENSE-docs/a': 'x' });
    for (const client of [app().as(owner), app().anonymous]) {
      const record = await read(client, project.id, '?license=true');
      expect(record.license_url).toBe(`${app().url}/${project.path_with_namespace}/-/blob/main/${file}`);
      expect(record.license.key).toBe(key);
      expect(await read(client, project.id)).not.toHaveProperty('license');
    }
  });

  it('has all its fields, and is null if there is none or the caller may not read the code', async () => {
    const [owner, guest] = [await app().make.user(), await app().make.user()];
    const project = await app().make.project({}, owner);
    await app().make.projectMember(project, guest, 10);
    expect(await read(app().as(owner), project.id, '?license=true')).toMatchObject({
      license: null,
      license_url: null,
    });
    await commit(project.id, { LICENSE: MIT });
    expect((await read(app().as(owner), project.id, '?license=true')).license).toEqual({
      key: 'mit',
      name: 'MIT License',
      nickname: null,
      html_url: 'https://choosealicense.com/licenses/mit/',
      source_url: 'https://spdx.org/licenses/MIT.html',
    });
    expect(await read(app().as(guest), project.id, '?license=true')).toMatchObject({
      license: null,
      license_url: null,
    });
  });

  const commit = async (id: number, files: Readonly<Record<string, string>>) => {
    const { disk_path } = await db()
      .selectFrom('projects')
      .select('disk_path')
      .where('id', '=', id)
      .executeTakeFirstOrThrow();
    const who = { name: 'Author', email: 'author@example.com', date: new Date() };
    await app().hub.services.git.commitFiles(disk_path, {
      branch: 'main',
      parent: null,
      message: 'Licence',
      author: who,
      committer: who,
      files: Object.entries(files).map(([path, content]) => ({ action: 'create' as const, path, content })),
    });
  };
});

describe('a timestamp of a project', () => {
  const times = async (id: number) => {
    await app().settle();
    const { updated_at, last_activity_at } = await read(app().as(app().root), id);
    return { updated_at, last_activity_at };
  };

  it('advances with every change of the record, and with activity in the project', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const group = await app().make.group({ visibility: 'internal' }, owner);
    const project = await app().make.project({ initialize_with_readme: true }, owner);
    const path = `/projects/${project.id}`;
    const changes: readonly [string, () => Promise<{ readonly status: number }>][] = [
      ['description', () => client.put(path, { description: 'new' })],
      ['topics', () => client.put(path, { topics: ['times'] })],
      ['name', () => client.put(path, { name: 'Renamed', path: `renamed-${project.path}` })],
      ['visibility', () => client.put(path, { visibility: 'internal' })],
      ['archive', () => client.post(`${path}/archive`)],
      ['unarchive', () => client.post(`${path}/unarchive`)],
      ['transfer', () => client.put(`${path}/transfer`, { namespace: group.id })],
      // This push deletes a file that appears in the record.
      ['readme', () => client.delete(`${path}/repository/files/README.md?branch=main&commit_message=Gone`)],
    ];
    for (const [name, change] of changes) {
      const before = await times(project.id);
      expect((await change()).status, name).toBeLessThan(300);
      const after = await times(project.id);
      expect(after.updated_at > before.updated_at, `updated_at after ${name}`).toBe(true);
      expect(after.last_activity_at > before.last_activity_at, `last_activity_at after ${name}`).toBe(true);
    }
    const events: readonly [string, () => Promise<{ readonly status: number }>][] = [
      ['issue', () => client.post(`${path}/issues`, { title: 't' })],
      ['label', () => client.post(`${path}/labels`, { name: 'l', color: '#fff' })],
      ['branch', () => client.post(`${path}/repository/branches?branch=b&ref=main`)],
    ];
    for (const [name, event] of events) {
      const before = await times(project.id);
      expect((await event()).status, name).toBe(201);
      const after = await times(project.id);
      expect(after.updated_at, `updated_at after ${name}`).toBe(before.updated_at);
      expect(after.last_activity_at > before.last_activity_at, `last_activity_at after ${name}`).toBe(true);
    }
  });

  it('stays the same without a change, and when users star or read the project', async () => {
    const owner = await app().make.user();
    const client = app().as(owner);
    const project = await app().make.project({ description: 'same' }, owner);
    const before = await times(project.id);
    await client.put(`/projects/${project.id}`, { description: 'same' });
    await client.post(`/projects/${project.id}/star`);
    await client.get(`/projects/${project.id}?statistics=true`);
    await client.put(`/projects/${project.id}`, { build_timeout: 1 });
    expect(await times(project.id)).toEqual(before);
  });
});
