import { describe, expect, it } from 'vitest';
import { remoteOf, runGit, tryGit, useFolder, workTree } from '../repositories/support.ts';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';

const app = useApp();
const folder = useFolder();

/** Creates a project with one record of each kind while it is still writable. */
const makeProject = async () => {
  const owner = await app().make.user();
  const project = await app().make.project({ visibility: 'public', initialize_with_readme: true }, owner);
  const client = app().as(owner);
  const path = `/projects/${project.id}`;
  const add = async (rest: string, body: Record<string, unknown>) => {
    const answer = await client.post(`${path}${rest}`, body);
    expect([rest, answer.status]).toEqual([rest, 201]);
    return answer.body;
  };
  const issue = await add('/issues', { title: 'One' });
  const note = await add('/issues/1/notes', { body: 'said' });
  const award = await add('/issues/1/award_emoji', { name: 'eyes' });
  const label = await add('/labels', { name: 'bug', color: '#ff0000' });
  const milestone = await add('/milestones', { title: 'M1' });
  const branch = await add('/repository/branches', { branch: 'work', ref: 'main' });
  await add('/repository/tags', { tag_name: 'v1', ref: 'main' });
  await add('/releases', { tag_name: 'v1', description: 'first' });
  return { owner, client, project, path, ids: { issue, note, award, label, milestone }, sha: branch.commit.id };
};
type Made = Awaited<ReturnType<typeof makeProject>>;

const file = { branch: 'work', content: 'x', commit_message: 'x' };
const actions = [{ action: 'create', file_path: 'b', content: 'x' }];

/** The requests that are refused in a project that is archived or marked for deletion. */
const refused = ({ ids, sha }: Made): [string, string, Record<string, unknown>?][] => [
  ['POST', '/issues', { title: 'x' }],
  ['PUT', '/issues/1', { title: 'x' }],
  ['DELETE', '/issues/1'],
  ['POST', '/issues/1/notes', { body: 'x' }],
  ['PUT', `/issues/1/notes/${ids.note.id}`, { body: 'x' }],
  ['DELETE', `/issues/1/notes/${ids.note.id}`],
  ['POST', '/issues/1/award_emoji', { name: 'tada' }],
  ['DELETE', `/issues/1/award_emoji/${ids.award.id}`],
  ['POST', '/labels', { name: 'x', color: '#00ff00' }],
  ['PUT', '/labels/bug', { new_name: 'x' }],
  ['DELETE', '/labels/bug'],
  ['POST', '/milestones', { title: 'x' }],
  ['PUT', `/milestones/${ids.milestone.id}`, { title: 'x' }],
  ['DELETE', `/milestones/${ids.milestone.id}`],
  ['POST', '/repository/branches', { branch: 'x', ref: 'main' }],
  ['DELETE', '/repository/branches/work'],
  ['DELETE', '/repository/merged_branches'],
  ['POST', '/repository/tags', { tag_name: 'x', ref: 'main' }],
  ['DELETE', '/repository/tags/v1'],
  ['POST', '/repository/commits', { branch: 'work', commit_message: 'x', actions }],
  ['POST', '/repository/files/new', file],
  ['PUT', '/repository/files/README.md', file],
  ['DELETE', '/repository/files/README.md', { branch: 'work', commit_message: 'x' }],
  ['POST', `/repository/commits/${sha}/cherry_pick`, { branch: 'work' }],
  ['POST', `/repository/commits/${sha}/revert`, { branch: 'work' }],
  ['POST', `/repository/commits/${sha}/comments`, { note: 'x' }],
  ['POST', `/statuses/${sha}`, { state: 'success' }],
  ['POST', '/releases', { tag_name: 'v2', ref: 'main' }],
  ['PUT', '/releases/v1', { description: 'x' }],
  ['DELETE', '/releases/v1'],
];

const contents = async ({ client, path }: Made) =>
  Promise.all(
    [
      'issues',
      'issues/1/notes',
      'issues/1/award_emoji',
      'labels',
      'milestones',
      'repository/branches',
      'repository/tags',
    ]
      .concat('repository/commits?ref_name=work', 'releases')
      .map(async (each) => (await client.get(`${path}/${each}`)).body),
  );

const mutate = (client: Client, name: string, input: Record<string, unknown>) => {
  const type = `${name.charAt(0).toUpperCase()}${name.slice(1)}Input`;
  return client.graphql(`mutation ($input: ${type}!) { ${name}(input: $input) { errors } }`, { input });
};

describe.each([
  ['archived', 'archive', 'archived'],
  ['marked for deletion', null, 'marked for deletion'],
] as const)('a project that is %s', (_, verb, said) => {
  const close = async ({ client, path, project }: Made): Promise<void> => {
    if (verb !== null) expect((await client.post(`${path}/${verb}`)).status).toBe(201);
    else {
      const { db } = app().hub.services;
      await db
        .updateTable('projects')
        .set({ marked_for_deletion_on: '2026-01-02' })
        .where('id', '=', project.id)
        .execute();
    }
  };

  it('refuses writes over REST, even from its owner and administrators', async () => {
    const made = await makeProject();
    await app().settle();
    await close(made);
    const before = await contents(made);
    for (const client of [made.client, app().as(app().root)]) {
      for (const [method, rest, body] of refused(made)) {
        const { status } = await client.request(method, `${made.path}${rest}`, body);
        expect([method, rest, status]).toEqual([method, rest, 403]);
      }
    }
    const form = new FormData();
    form.set('file', new Blob(['x']), 'x.txt');
    expect((await made.client.post(`${made.path}/uploads`, form)).status).toBe(403);
    const stranger = app().as(await app().make.user());
    expect((await stranger.post(`${made.path}/access_requests`)).status).toBe(403);
    expect(await contents(made)).toEqual(before);
  });

  it('refuses writes over GraphQL', async () => {
    const made = await makeProject();
    await close(made);
    const projectPath = made.project.path_with_namespace;
    const issue = `gid://gitlab/Issue/${made.ids.issue.id}`;
    const inputs: [string, Record<string, unknown>][] = [
      ['createIssue', { projectPath, title: 'x' }],
      ['updateIssue', { projectPath, iid: '1', title: 'x' }],
      ['createNote', { noteableId: issue, body: 'x' }],
      ['awardEmojiAdd', { awardableId: issue, name: 'tada' }],
      ['awardEmojiRemove', { awardableId: issue, name: 'eyes' }],
      ['labelCreate', { projectPath, title: 'x' }],
      ['createBranch', { projectPath, name: 'x', ref: 'main' }],
      ['branchDelete', { projectPath, name: 'work' }],
      ['tagCreate', { projectPath, name: 'x', ref: 'main' }],
      [
        'commitCreate',
        { projectPath, branch: 'work', message: 'x', actions: [{ action: 'CREATE', filePath: 'b', content: 'x' }] },
      ],
      ['releaseCreate', { projectPath, tagName: 'v2', ref: 'main' }],
    ];
    for (const [name, input] of inputs) {
      const { errors } = await mutate(made.client, name, input);
      expect([name, errors?.[0]?.extensions?.code]).toEqual([name, 'FORBIDDEN']);
    }
  });

  it('can be cloned, but refuses pushes', async () => {
    const made = await makeProject();
    const remote = await remoteOf(app(), made.project, made.owner);
    const tree = await workTree(folder());
    await close(made);
    expect((await tryGit(tree, 'push', remote, 'main:x')).stderr).toContain(said);
    expect((await tryGit(tree, 'push', remote, ':work')).stderr).toContain(said);
    expect((await runGit(tree, 'ls-remote', remote)).split('\n')).toHaveLength(4);
  });

  it('still allows reads and administration: settings, members, protection, hooks, push rules', async () => {
    const made = await makeProject();
    await close(made);
    const { client, path } = made;
    const colleague = await app().make.user();
    const allowed: [string, string, Record<string, unknown> | undefined, number][] = [
      ['GET', '', undefined, 200],
      ['GET', '/repository/files/README.md?ref=main', undefined, 200],
      ['PUT', '', { description: 'kept' }, 200],
      ['POST', '/members', { user_id: colleague.id, access_level: 30 }, 201],
      ['DELETE', `/members/${colleague.id}`, undefined, 204],
      ['POST', '/protected_branches', { name: 'work' }, 201],
      ['DELETE', '/protected_branches/work', undefined, 204],
      ['POST', '/protected_tags', { name: 'v*' }, 201],
      ['POST', '/push_rule', { deny_delete_tag: true }, 201],
      ['POST', '/hooks', { url: 'http://hooks.example.com/' }, 201],
      ['POST', '/star', undefined, 201],
      ['POST', '/export', undefined, 202],
    ];
    for (const [method, rest, body, expected] of allowed) {
      const { status } = await client.request(method, `${path}${rest}`, body);
      expect([method, rest, status]).toEqual([method, rest, expected]);
    }
  });
});

it('accepts writes again after it is unarchived', async () => {
  const made = await makeProject();
  await made.client.post(`${made.path}/archive`);
  await made.client.post(`${made.path}/unarchive`);
  expect((await made.client.post(`${made.path}/issues`, { title: 'Two' })).status).toBe(201);
});
