import { beforeAll, expect, it } from 'vitest';
import { type TestUser, useApp } from '../support/app.ts';
import type { TestGroup, TestProject } from '../support/factories.ts';
import { mutate } from '../support/graphql.ts';

// Mutations have the limits of REST parameters: the functions of the domains check them.

const app = useApp();
let owner: TestUser;
let group: TestGroup;
let project: TestProject;

beforeAll(async () => {
  owner = await app().make.user();
  group = await app().make.group({}, owner);
  project = await app().make.project({ namespace_id: group.id, initialize_with_readme: true }, owner);
});

/** Runs a mutation that has to refuse its input, and returns the reasons. */
const refused = async (name: string, input: Readonly<Record<string, unknown>>): Promise<readonly string[]> => {
  const type = `${name.charAt(0).toUpperCase()}${name.slice(1)}Input`;
  const { data, errors } = await app()
    .as(owner)
    .graphql(`mutation ($input: ${type}!) { ${name}(input: $input) { errors } }`, { input });
  expect([name, errors]).toEqual([name, undefined]);
  return data[name].errors;
};

const listed = async (path: string): Promise<unknown> => (await app().as(owner).get(path)).body;

it('refuses a negative weight of an issue', async () => {
  const at = `/projects/${project.id}/issues`;
  const projectPath = project.path_with_namespace;
  const reasons = ['Weight must be greater than or equal to 0'];
  expect(await refused('createIssue', { projectPath, title: 'one', weight: -1 })).toEqual(reasons);
  expect(await listed(at)).toEqual([]);
  const { body: issue } = await app().as(owner).post(at, { title: 'one', weight: 3 });
  expect(await refused('updateIssue', { projectPath, iid: String(issue.iid), weight: -1 })).toEqual(reasons);
  expect(await listed(at)).toMatchObject([{ title: 'one', weight: 3 }]);
});

it('refuses a long description and a negative priority of a label', async () => {
  const projectPath = project.path_with_namespace;
  const wrong = { description: 'x'.repeat(10_001), priority: -1 };
  const reasons = [
    'Description is too long (maximum is 10000 characters)',
    'Priority must be greater than or equal to 0',
  ];
  expect(await refused('labelCreate', { projectPath, title: 'bug', ...wrong })).toEqual(reasons);
  const { label } = await mutate(
    app().as(owner),
    'labelCreate',
    { projectPath, title: 'bug', description: 'x'.repeat(10_000), priority: 0 },
    'label { id }',
  );
  expect(await refused('labelUpdate', { id: label.id, ...wrong })).toEqual(reasons);
  expect(await listed(`/projects/${project.id}/labels`)).toMatchObject([{ name: 'bug', priority: 0 }]);
});

it('refuses a long summary of spent time', async () => {
  const { body: issue } = await app().as(owner).post(`/projects/${project.id}/issues`, { title: 'timed' });
  const input = { issuableId: `gid://gitlab/Issue/${issue.id}`, timeSpent: '1h' };
  expect(await refused('timelogCreate', { ...input, summary: 'x'.repeat(256) })).toEqual([
    'Summary is too long (maximum is 255 characters)',
  ]);
  expect(await listed(`/projects/${project.id}/issues/${issue.iid}/time_stats`)).toMatchObject({ total_time_spent: 0 });
  await mutate(app().as(owner), 'timelogCreate', { ...input, summary: 'x'.repeat(255) });
});

it('refuses a long duration', async () => {
  const { body: issue } = await app().as(owner).post(`/projects/${project.id}/issues`, { title: 'estimated' });
  const timeSpent = '1m '.repeat(86);
  const issuableId = `gid://gitlab/Issue/${issue.id}`;
  expect(await refused('timelogCreate', { issuableId, timeSpent, summary: '' })).toEqual([
    'timeSpent is invalid (allowed: a duration such as 1w 2d 3h 30m)',
  ]);
  await mutate(app().as(owner), 'timelogCreate', { issuableId, timeSpent: timeSpent.slice(3, -1), summary: '' });
});

it('refuses more links and milestones of a release than REST, and takes as many labels', async () => {
  const projectPath = project.path_with_namespace;
  const links = Array.from({ length: 101 }, (_, n) => ({ name: `l${n}`, url: `https://example.com/${n}` }));
  const release = { projectPath, tagName: 'v1', ref: 'main' };
  expect(await refused('releaseCreate', { ...release, assets: { links } })).toEqual(['Links may be at most 100']);
  const milestones = Array.from({ length: 101 }, () => 'none');
  const reason = 'at most 100 milestones are allowed';
  expect(await refused('releaseCreate', { ...release, milestones })).toEqual([reason]);
  expect(await listed(`/projects/${project.id}/releases`)).toEqual([]);
  await mutate(app().as(owner), 'releaseCreate', { ...release, assets: { links: links.slice(1) } });
  const labels = Array.from({ length: 1_001 }, (_, n) => `l${n}`);
  const reasons = ['Labels may be at most 1000'];
  expect(await refused('createIssue', { projectPath, title: 'labelled', labels })).toEqual(reasons);
  const at = `/projects/${project.id}/issues`;
  expect(await app().as(owner).post(at, { title: 'labelled', labels })).toMatchObject({ status: 400 });
  const made = await app()
    .as(owner)
    .post(at, { title: 'labelled', labels: labels.slice(1) });
  expect(made.body.labels).toHaveLength(1_000);
});

it('refuses a long name of an input of a schedule', async () => {
  const input = { projectPath: project.path_with_namespace, description: 'd', ref: 'main', cron: '0 1 * * *' };
  expect(
    await refused('pipelineScheduleCreate', { ...input, inputs: [{ name: 'x'.repeat(256), value: 'v' }] }),
  ).toEqual(['Inputs name is too long (maximum is 255 characters)']);
  expect(await listed(`/projects/${project.id}/pipeline_schedules`)).toEqual([]);
  await mutate(app().as(owner), 'pipelineScheduleCreate', {
    ...input,
    inputs: [{ name: 'x'.repeat(255), value: 'v' }],
  });
});

it('refuses a SAML group link with an id of a role that cannot be', async () => {
  const input = { groupPath: group.full_path, samlGroupName: 'team', accessLevel: 'GUEST' };
  expect(await refused('samlGroupLinkCreate', { ...input, memberRoleId: 0 })).toEqual(['Member role id is invalid']);
  expect(await listed(`/groups/${group.id}/saml_group_links`)).toEqual([]);
});

it('refuses a long description of a fork and of an export', async () => {
  const description = 'x'.repeat(2_001);
  const reasons = ['Description is too long (maximum is 2000 characters)'];
  expect(await refused('projectFork', { fullPath: project.path_with_namespace, description })).toEqual(reasons);
  expect(await listed(`/projects/${project.id}/forks`)).toEqual([]);
  expect(await refused('projectExport', { projectPath: project.path_with_namespace, description })).toEqual(reasons);
  expect(await listed(`/projects/${project.id}/export`)).toMatchObject({ export_status: 'none' });
});

it('refuses a comment outside of a picture', async () => {
  const client = app().as(owner);
  const at = `/projects/${project.id}`;
  const picture = { action: 'create', file_path: 'dot.png', content: 'iVBORw0KGgo=', encoding: 'base64' };
  const commit = { branch: 'topic', start_branch: 'main', commit_message: 'Add', actions: [picture] };
  expect(await client.post(`${at}/repository/commits`, commit)).toMatchObject({ status: 201 });
  const opened = await client.post(`${at}/merge_requests`, {
    source_branch: 'topic',
    target_branch: 'main',
    title: 'Add',
  });
  await app().settle();
  const { diff_refs } = (await client.get(`${at}/merge_requests/${opened.body.iid}`)).body;
  const position = {
    baseSha: diff_refs.base_sha,
    headSha: diff_refs.head_sha,
    startSha: diff_refs.start_sha,
    paths: { newPath: 'dot.png' },
    width: 10,
    height: 10,
    y: 1,
  };
  const input = { noteableId: `gid://gitlab/MergeRequest/${opened.body.id}`, body: 'here' };
  expect(await refused('createImageDiffNote', { ...input, position: { ...position, x: -1 } })).toEqual([
    'Note {:position=>["is invalid"]}',
  ]);
  expect(await listed(`${at}/merge_requests/${opened.body.iid}/discussions`)).toEqual([]);
  const { note } = await mutate(
    client,
    'createImageDiffNote',
    { ...input, position: { ...position, x: 0 } },
    'note { position { x y } }',
  );
  expect(note.position).toEqual({ x: 0, y: 1 });
});
