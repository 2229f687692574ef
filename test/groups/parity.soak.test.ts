import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';

const app = useApp();

describe('groups and namespaces over GraphQL', () => {
  it('offer every setting of a group that REST offers', async () => {
    const { make, as } = app();
    const owner = await make.user();
    const reader = await make.user();
    const group = await make.group({ visibility: 'public' }, owner);
    const project = await make.project({ namespace_id: group.id }, owner);
    const answer = await as(owner).graphql('mutation($i: GroupUpdateInput!) { groupUpdate(input: $i) { errors } }', {
      i: {
        fullPath: group.path,
        wikiAccessLevel: 'private',
        assistantFeaturesEnabled: false,
        lockAssistantFeaturesEnabled: true,
        fileTemplateProjectId: `gid://gitlab/Project/${project.id}`,
        ipRestrictionRanges: '127.0.0.0/8',
        serviceAccessTokensExpirationEnforced: false,
        defaultBranch: 'trunk',
      },
    });
    expect(answer.data.groupUpdate).toEqual({ errors: [] });
    const { body } = await as(owner).get(`/groups/${group.id}`);
    const expected = {
      wikiAccessLevel: 'private',
      assistantFeaturesEnabled: false,
      lockAssistantFeaturesEnabled: true,
      fileTemplateProjectId: `gid://gitlab/Project/${project.id}`,
      defaultBranch: 'trunk',
      defaultBranchProtectionDefaults: body.default_branch_protection_defaults,
      repositoryStorage: 'default',
      markedForDeletionOn: null,
    };
    expect(body).toMatchObject({
      wiki_access_level: 'private',
      assistant_features_enabled: false,
      lock_assistant_features_enabled: true,
      file_template_project_id: project.id,
      ip_restriction_ranges: '127.0.0.0/8',
      default_branch: 'trunk',
    });
    const query = `{ group(fullPath: "${group.path}") { ${Object.keys(expected).join(' ')} ipRestrictionRanges } }`;
    expect((await as(owner).graphql(query)).data.group).toEqual({ ...expected, ipRestrictionRanges: '127.0.0.0/8' });
    expect((await as(reader).graphql(query)).data.group).toEqual({ ...expected, ipRestrictionRanges: null });
  });

  it('list the groups and projects shared with a group that the caller may know about', async () => {
    const { make, as } = app();
    const owner = await make.user();
    const reader = await make.user();
    const group = await make.group({ visibility: 'public' }, owner);
    const [open, secret] = [
      await make.group({ name: 'Open', visibility: 'public' }, owner),
      await make.group({ name: 'Secret' }, owner),
    ];
    const project = await make.project({ namespace_id: open.id, visibility: 'public', topics: ['a'] }, owner);
    const hidden = await make.project({ namespace_id: secret.id }, owner);
    for (const each of [open, secret]) {
      await as(owner).post(`/groups/${each.id}/share`, { group_id: group.id, group_access: 20 });
    }
    for (const each of [project, hidden]) {
      await as(owner).post(`/projects/${each.id}/share`, { group_id: group.id, group_access: 20 });
    }
    const query = `{ group(fullPath: "${group.path}") {
      sharedGroups { count nodes { fullPath } } sharedProjects(sort: ID_ASC) { count nodes { fullPath } }
      projects(withShared: true, topics: ["a"], visibilityLevel: public) { nodes { fullPath } } } }`;
    const paths = (...found: string[]) => found.map((fullPath) => ({ fullPath }));
    const both = paths(project.path_with_namespace, hidden.path_with_namespace);
    expect((await as(owner).graphql(query)).data.group).toEqual({
      sharedGroups: { count: 2, nodes: paths(open.path, secret.path) },
      sharedProjects: { count: 2, nodes: both },
      projects: { nodes: both.slice(0, 1) },
    });
    expect((await as(reader).graphql(query)).data.group).toEqual({
      sharedGroups: { count: 1, nodes: paths(open.path) },
      sharedProjects: { count: 1, nodes: both.slice(0, 1) },
      projects: { nodes: both.slice(0, 1) },
    });
    const rest = await as(reader).get(`/groups/${group.id}/groups/shared`);
    expect(rest.body.map((each: { full_path: string }) => each.full_path)).toEqual([open.path]);
  });

  it('list namespaces and check their paths', async () => {
    const { make, as, anonymous } = app();
    const owner = await make.user();
    const group = await make.group({}, owner);
    const query = `{ currentUser { namespace { id fullPath } }
      namespaces { count nodes { fullPath kind } } namespacePath(path: "${group.path}") { exists suggests } }`;
    const { data } = await as(owner).graphql(query);
    expect(data).toEqual({
      currentUser: { namespace: { id: expect.stringContaining('UserNamespace/'), fullPath: owner.username } },
      namespaces: {
        count: 2,
        nodes: [
          { fullPath: owner.username, kind: 'user' },
          { fullPath: group.path, kind: 'group' },
        ],
      },
      namespacePath: { exists: true, suggests: [`${group.path}1`] },
    });
    expect((await anonymous.graphql(query)).data).toEqual({
      currentUser: null,
      namespaces: { count: 0, nodes: [] },
      namespacePath: null,
    });
  });
});
