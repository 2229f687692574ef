import { describe, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import type { TestProject } from '../support/factories.ts';
import { countStatements } from '../support/statements.ts';

const app = useApp();

const memberOf = async (project: { readonly id: number }, level: number): Promise<TestUser> => {
  const user = await app().make.user();
  await app().make.projectMember(project, user, level);
  return user;
};

/** Creates a project with `main`, `release/1` and `release/2`. */
const setUp = async (attributes: Record<string, unknown> = { visibility: 'private' }) => {
  const owner = await app().make.user();
  const project = await app().make.project(attributes, owner);
  const base = `/projects/${project.id}`;
  const client = app().as(owner);
  const actions = [{ action: 'create', file_path: 'file', content: '1' }];
  await client.post(`${base}/repository/commits`, { branch: 'main', commit_message: 'First', actions });
  for (const branch of ['release/1', 'release/2'])
    await client.post(`${base}/repository/branches`, { branch, ref: 'main' });
  return { owner, project, base, client };
};

const LEVELS = 'nodes { accessLevel accessLevelDescription user { username } group { fullPath } }';
const RULE = `id name isDefault isProtected matchingBranchesCount createdAt updatedAt branchProtection {
  allowForcePush codeOwnerApprovalRequired
  mergeAccessLevels { ${LEVELS} } pushAccessLevels { ${LEVELS} } unprotectAccessLevels { ${LEVELS} }
}`;
const QUERY = `query ($path: ID!) { project(fullPath: $path) { branchRules { count nodes { ${RULE} } } } }`;
const rulesOf = async (user: TestUser, project: TestProject) =>
  (await app().as(user).graphql(QUERY, { path: project.path_with_namespace })).data.project;

const run = async (user: TestUser, name: string, input: Record<string, unknown>) => {
  const type = `${name.charAt(0).toUpperCase()}${name.slice(1)}Input`;
  const text = `mutation ($input: ${type}!) { ${name}(input: $input) { branchRule { ${RULE} } errors } }`;
  const { data, errors } = await app().as(user).graphql(text, { input });
  return { ...data?.[name], top: errors?.map(({ message }: { message: string }) => message) };
};

const role = (accessLevel: number, accessLevelDescription: string) => ({
  accessLevel,
  accessLevelDescription,
  user: null,
  group: null,
});
const maintainers = { nodes: [role(40, 'Maintainers')] };
const UNAVAILABLE =
  "The resource that you are attempting to access does not exist or you don't have permission to perform this action";

describe('a branch rule', () => {
  it('is created, listed, changed and deleted', async () => {
    const { owner, project, base, client } = await setUp();
    const developer = await memberOf(project, 30);
    const made = await run(owner, 'branchRuleCreate', { projectPath: project.path_with_namespace, name: 'release/*' });
    expect(made.errors).toEqual([]);
    expect(made.branchRule).toMatchObject({
      id: expect.stringMatching(/^gid:\/\/gitlab\/Projects::BranchRule\/\d+$/),
      name: 'release/*',
      isDefault: false,
      isProtected: true,
      matchingBranchesCount: 2,
      branchProtection: {
        allowForcePush: false,
        codeOwnerApprovalRequired: false,
        mergeAccessLevels: maintainers,
        pushAccessLevels: maintainers,
        unprotectAccessLevels: maintainers,
      },
    });
    expect(made.branchRule.updatedAt).toBe(made.branchRule.createdAt);
    const listed = await rulesOf(developer, project);
    expect(listed.branchRules.count).toBe(2);
    expect(listed.branchRules.nodes).toEqual([
      expect.objectContaining({ name: 'main', isDefault: true, matchingBranchesCount: 1 }),
      made.branchRule,
    ]);

    // The lists in the input replace the old ones, and everything else stays.
    const changed = await run(owner, 'branchRuleUpdate', {
      id: made.branchRule.id,
      name: 'release/1',
      branchProtection: {
        allowForcePush: true,
        pushAccessLevels: [{ accessLevel: 30 }, { userId: `gid://gitlab/User/${developer.id}` }],
      },
    });
    expect(changed.errors).toEqual([]);
    expect(changed.branchRule).toMatchObject({
      id: made.branchRule.id,
      name: 'release/1',
      matchingBranchesCount: 1,
      createdAt: made.branchRule.createdAt,
      branchProtection: {
        allowForcePush: true,
        mergeAccessLevels: maintainers,
        pushAccessLevels: {
          nodes: [
            role(30, 'Developers + Maintainers'),
            {
              accessLevel: 40,
              accessLevelDescription: `Name of ${developer.username}`,
              user: { username: developer.username },
              group: null,
            },
          ],
        },
      },
    });
    expect(changed.branchRule.updatedAt > changed.branchRule.createdAt).toBe(true);
    const rest = await client.get(`${base}/protected_branches/release%2F1`);
    expect(rest.body.push_access_levels.map((each: { access_level: number | null }) => each.access_level)).toEqual([
      30,
      null,
    ]);
    expect((await client.get(`${base}/protected_branches/release%2F*`)).status).toBe(404);

    // Setting the push level to nobody works. Invalid input is reported.
    const id = made.branchRule.id;
    const nobody = await run(owner, 'branchRuleUpdate', {
      id,
      name: 'release/1',
      branchProtection: { pushAccessLevels: [] },
    });
    expect(nobody.branchRule.branchProtection.pushAccessLevels).toEqual({ nodes: [] });
    const commit = {
      branch: 'release/1',
      commit_message: 'No',
      actions: [{ action: 'create', file_path: 'x', content: '' }],
    };
    expect((await client.post(`${base}/repository/commits`, commit)).status).toBe(403);
    expect((await run(owner, 'branchRuleUpdate', { id, name: 'main' })).errors).toEqual([
      'Name has already been taken',
    ]);
    expect((await run(owner, 'branchRuleUpdate', { id, name: 'a b' })).errors).toEqual(['Name is invalid']);
    const wrong = { id, name: 'other', branchProtection: { mergeAccessLevels: [{ accessLevel: 20 }] } };
    expect((await run(owner, 'branchRuleUpdate', wrong)).errors).toEqual(['Access level is not included in the list']);
    expect(
      (await run(owner, 'branchRuleCreate', { projectPath: project.path_with_namespace, name: 'main' })).errors,
    ).toEqual(["Protected branch 'main' already exists"]);
    expect((await rulesOf(owner, project)).branchRules.nodes[1]).toEqual(nobody.branchRule);

    expect(await run(owner, 'branchRuleDelete', { id })).toEqual({ branchRule: null, errors: [], top: undefined });
    expect((await rulesOf(owner, project)).branchRules.nodes).toHaveLength(1);
    expect((await run(owner, 'branchRuleDelete', { id })).top).toEqual([UNAVAILABLE]);
  });

  it('is visible to Developers, and changed by Maintainers', async () => {
    const { owner, project } = await setUp({ visibility: 'public' });
    const [rule] = (await rulesOf(owner, project)).branchRules.nodes;
    const developer = await memberOf(project, 30);
    const reporter = await memberOf(project, 20);
    const stranger = await app().make.user();
    for (const user of [reporter, stranger]) expect(await rulesOf(user, project)).toEqual({ branchRules: null });
    const { data } = await app().anonymous.graphql(QUERY, { path: project.path_with_namespace });
    expect(data.project).toEqual({ branchRules: null });
    for (const user of [developer, reporter, stranger]) {
      const inputs = {
        branchRuleCreate: { projectPath: project.path_with_namespace, name: 'mine' },
        branchRuleUpdate: { id: rule.id, name: 'mine', branchProtection: { pushAccessLevels: [{ accessLevel: 30 }] } },
        branchRuleDelete: { id: rule.id },
      };
      for (const [name, input] of Object.entries(inputs)) {
        expect((await run(user, name, input)).top).toEqual([UNAVAILABLE]);
      }
    }
    expect((await rulesOf(developer, project)).branchRules.nodes).toEqual([rule]);
  });

  it('is changed and deleted only by users who may unprotect the branch', async () => {
    const { owner, project, client, base } = await setUp();
    const maintainer = await memberOf(project, 40);
    await client.post(`${base}/protected_branches`, { name: 'kept', allowed_to_unprotect: [{ user_id: owner.id }] });
    const rule = (await rulesOf(owner, project)).branchRules.nodes.find(
      ({ name }: { name: string }) => name === 'kept',
    );
    expect(rule.branchProtection.unprotectAccessLevels.nodes).toMatchObject([{ user: { username: owner.username } }]);
    expect((await run(maintainer, 'branchRuleUpdate', { id: rule.id, name: 'free' })).top).toEqual([UNAVAILABLE]);
    expect((await run(maintainer, 'branchRuleDelete', { id: rule.id })).top).toEqual([UNAVAILABLE]);
    expect((await run(owner, 'branchRuleDelete', { id: rule.id })).errors).toEqual([]);
  });

  it('omits groups that the caller cannot see', async () => {
    const { owner, project, client, base } = await setUp();
    const group = await app().make.group({ visibility: 'private' }, owner);
    await client.post(`${base}/share`, { group_id: group.id, group_access: 30 });
    await client.post(`${base}/protected_branches`, { name: 'shared', allowed_to_push: [{ group_id: group.id }] });
    const developer = await memberOf(project, 30);
    const groupSeenBy = async (user: TestUser) =>
      (await rulesOf(user, project)).branchRules.nodes[1].branchProtection.pushAccessLevels.nodes[0].group;
    expect(await groupSeenBy(owner)).toEqual({ fullPath: group.full_path });
    expect(await groupSeenBy(developer)).toBeNull();
  });

  it('counts no branches if the code is disabled', async () => {
    const { owner, project, client, base } = await setUp();
    await client.put(base, { repository_access_level: 'disabled' });
    expect((await rulesOf(owner, project)).branchRules.nodes).toMatchObject([
      { name: 'main', matchingBranchesCount: 0 },
    ]);
  });

  it('takes as few statements for many projects as for one', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    const client = app().as(owner);
    const add = async () => {
      const { id } = await app().make.project({ namespace_id: group.id }, owner);
      await client.post(`/projects/${id}/protected_branches`, { name: 'x', allowed_to_push: [{ user_id: owner.id }] });
      await client.post(`/projects/${id}/protected_tags`, { name: 'v*' });
    };
    const text = `query ($path: ID!) { group(fullPath: $path) { projects(first: 10) { nodes {
      branchRules(first: 5) { count nodes { ${RULE} } }
      protectedBranches(first: 5, search: "X") { nodes { name pushAccessLevels { accessLevelDescription } } }
      protectedTags(first: 5) { nodes { name createAccessLevels { accessLevel } } }
    } } } }`;
    const ask = () => client.graphql(text, { path: group.full_path });
    await add();
    const forOne = await countStatements(app(), ask);
    for (let i = 0; i < 4; i++) await add();
    const { data, errors } = await ask();
    expect(errors).toBeUndefined();
    expect(data.group.projects.nodes).toHaveLength(5);
    for (const node of data.group.projects.nodes) {
      expect(node.branchRules.count).toBe(2);
      expect(node.protectedBranches.nodes).toEqual([
        { name: 'x', pushAccessLevels: [{ accessLevelDescription: `Name of ${owner.username}` }] },
      ]);
      expect(node.protectedTags.nodes).toEqual([{ name: 'v*', createAccessLevels: [{ accessLevel: 40 }] }]);
    }
    expect(await countStatements(app(), ask)).toBeLessThanOrEqual(forOne);
  });
});
