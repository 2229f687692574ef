import { beforeAll, describe, expect, it } from 'vitest';
import { settleDeadPushes } from '#domains/repositories/pushes.ts';
import { makeScene } from '../planning/scene.ts';
import { commitFile, copyOf, remoteOf, runGit, tryGit, useFolder, workTree } from '../repositories/support.ts';
import { useApp } from '../support/app.ts';
import { pushCommits, pushTree } from '../support/commits.ts';

const app = useApp();
const folder = useFolder();

let template: string;
beforeAll(async () => {
  template = await workTree(folder());
  await runGit(template, 'checkout', '-q', '-b', 'topic');
  await commitFile(template, 'topic.txt', 'x', 'Add a topic\n\nBecause it was missing.');
});

/** Creates a project with `main`, and a work tree on a branch `topic` that is one commit ahead. */
const setUp = async (attributes: Record<string, unknown> = {}) => {
  const scene = await makeScene(app(), attributes);
  const tree = copyOf(folder(), template);
  const remote = await remoteOf(app(), scene.project, scene.people.owner);
  await pushTree(app(), scene.project, scene.people.owner, tree, 'main');
  const pushAs = async (url: string, refs: readonly string[], options: readonly string[]) => {
    const pushed = await tryGit(tree, 'push', ...options.flatMap((option) => ['-o', option]), url, ...refs);
    expect(pushed.stderr).not.toContain('error:');
    expect(pushed.code).toBe(0);
    return pushed.stderr;
  };
  const push = (...options: string[]) => pushAs(remote, ['topic'], options);
  const list = async () => (await scene.owner.get(`${scene.path}/merge_requests?sort=asc`)).body;
  return { ...scene, tree, remote, push, pushAs, list };
};

describe('git push -o merge_request.*', () => {
  it('opens a merge request with the text of the only commit', async () => {
    const { push, list, project, people } = await setUp();
    const said = await push('merge_request.create');
    expect(said).toContain(
      `remote: View merge request for topic: ${app().url}/${project.path_with_namespace}/-/merge_requests/1`,
    );
    expect(await list()).toMatchObject([
      {
        title: 'Add a topic',
        description: 'Because it was missing.',
        source_branch: 'topic',
        target_branch: 'main',
        author: { id: people.owner.id },
        draft: false,
        force_remove_source_branch: null,
      },
    ]);
  });

  it('begins the description with the default template of the target', async () => {
    const { push, list, owner, path } = await setUp();
    const template = {
      action: 'create',
      file_path: '.gitlab/merge_request_templates/Default.md',
      content: '## What\n',
    };
    const commit = { branch: 'main', commit_message: 'Add a template', actions: [template] };
    expect((await owner.post(`${path}/repository/commits`, commit)).status).toBe(201);
    await push('merge_request.create');
    expect(await list()).toMatchObject([{ title: 'Add a topic', description: '## What\n' }]);
  });

  it.each([
    ['a NUL far behind its start', `${'x'.repeat(9_000)}\0y`, `${'x'.repeat(9_000)}y`],
    ['what is not text', 'a\0b', 'Because it was missing.'],
    ['more than a description may have', 'x'.repeat(1_048_577), 'Because it was missing.'],
  ])('takes no harm from %s in the template', async (_what, content, description) => {
    const { push, list, project, people } = await setUp();
    const files = { '.gitlab/merge_request_templates/Default.md': content };
    await pushCommits(app(), project, people.owner, [{ branch: 'main', files }]);
    await push('merge_request.create');
    expect(await list()).toMatchObject([{ title: 'Add a topic', description }]);
  });

  it('sets all that the options name', async () => {
    const { push, list, owner, path, people, tree, remote } = await setUp();
    await runGit(tree, 'push', '-q', remote, 'main:release');
    await owner.post(`${path}/milestones`, { title: 'v1' });
    const { username, id } = people.maintainer;
    await push(
      'mr.create',
      'mr.target=release',
      'mr.title=My title',
      'mr.description=One\\nTwo',
      'mr.draft',
      'mr.label=a',
      'mr.label=b c',
      `mr.assign=@${username}`,
      `mr.assign=${people.reporter.id}`,
      'mr.milestone=v1',
      'mr.remove_source_branch',
      'mr.squash',
    );
    expect(await list()).toMatchObject([
      {
        title: 'Draft: My title',
        description: 'One\nTwo',
        target_branch: 'release',
        draft: true,
        labels: ['a', 'b c'],
        assignees: [{ id }, { id: people.reporter.id }],
        milestone: { title: 'v1' },
        force_remove_source_branch: true,
        squash: true,
      },
    ]);
    // The next push changes the open merge request, and needs no `create`.
    await commitFile(tree, 'more.txt', 'x', 'More');
    const said = await push(
      'merge_request.target=main',
      'merge_request.title=Better title',
      'merge_request.description=Three',
      'merge_request.draft=false',
      'merge_request.unlabel=a',
      'merge_request.label=d',
      `merge_request.unassign=${username}`,
      'merge_request.remove_source_branch=false',
      'merge_request.squash=no',
    );
    expect(said).toContain('View merge request for topic: ');
    expect(await list()).toMatchObject([
      {
        iid: 1,
        title: 'Better title',
        description: 'Three',
        target_branch: 'main',
        draft: false,
        labels: ['b c', 'd'],
        assignees: [{ id: people.reporter.id }],
        milestone: { title: 'v1' },
        force_remove_source_branch: false,
        squash: false,
      },
    ]);
  });

  it('prints the address of the merge request', async () => {
    const { push, tree, pushAs, remote, project, owner, path } = await setUp();
    await push('mr.create');
    await commitFile(tree, 'more.txt', 'x', 'More');
    expect(await push()).toContain(
      `View merge request for topic: ${app().url}/${project.path_with_namespace}/-/merge_requests/1`,
    );
    expect(await pushAs(remote, ['main:other'], [])).not.toContain('View merge request');
    await owner.put(path, { printing_merge_request_link_enabled: false });
    await commitFile(tree, 'most.txt', 'x', 'Most');
    expect(await push()).not.toContain('View merge request');
    // Everyone who sets an option gets a message about its result.
    await commitFile(tree, 'last.txt', 'x', 'Last');
    expect(await push('mr.squash')).toContain('View merge request for topic: ');
    // A branch that goes has none.
    expect(await pushAs(remote, [':topic'], ['mr.create'])).not.toContain('merge request for');
  });

  it('merges automatically, once there is something to wait for', async () => {
    const { push, list, pushAs, remote, project } = await setUp();
    const developer = await app().make.user();
    await app().make.projectMember(project, developer, 30);
    expect(await push('mr.create', 'mr.auto_merge')).toContain(
      'The merge request !1 is not merged automatically: there is nothing to wait for',
    );
    const theirs = await remoteOf(app(), project, developer);
    expect(await pushAs(theirs, ['topic:theirs'], ['mr.create', 'mr.auto_merge'])).toContain(
      'The merge request !2 is not merged automatically: you may neither push nor merge to its target branch',
    );
    const said = await pushAs(remote, ['topic:draft'], ['mr.create', 'mr.draft', 'mr.merge_when_pipeline_succeeds']);
    expect(said).toContain('The merge request !3 is merged as soon as nothing is in the way');
    expect(await list()).toMatchObject([
      { state: 'opened', merge_when_pipeline_succeeds: false },
      { state: 'opened', merge_when_pipeline_succeeds: false },
      { state: 'opened', merge_when_pipeline_succeeds: true },
    ]);
  });

  it('names a merge request after the branch if it brings several commits', async () => {
    const { push, list, tree } = await setUp();
    await commitFile(tree, 'more.txt', 'x', 'More');
    await push('mr.create');
    expect(await list()).toMatchObject([{ title: 'Topic', description: null }]);
  });

  it('never loses the push over an option that is refused', async () => {
    const { pushAs, list, remote, tree, project } = await setUp({ merge_method: 'merge' });
    const refusals: readonly (readonly [string[], string])[] = [
      [['mr.title=x'], 'merge_request.create is needed to open a merge request'],
      [['mr.create', 'mr.target=none'], 'The target branch none does not exist'],
      [['mr.create', 'mr.target_project=no/such'], 'The project no/such does not exist'],
      [['mr.create', 'mr.milestone=none'], 'The milestone none does not exist'],
      [['mr.create', 'mr.assign=nobody-here'], 'nobody-here cannot be assigned'],
      [['mr.create', `mr.title=${'x'.repeat(300)}`], 'Title is too long'],
      [['mr.create', 'mr.title= '], "Title can't be blank"],
    ];
    for (const [index, [options, reason]] of refusals.entries()) {
      const said = await pushAs(remote, [`topic:branch-${index}`], options);
      expect(said).toContain(`The push options for branch-${index} were refused: `);
      expect(said).toContain(reason);
    }
    expect(await list()).toEqual([]);
    const said = await pushAs(remote, ['topic:main'], ['mr.create', 'mr.nonsense', 'mr.title', 'mr.squash=maybe']);
    expect(said).toContain('The push option "merge_request.nonsense" is unknown');
    expect(said).toContain('The push option "merge_request.title" needs a value');
    expect(said).toContain('The push option "merge_request.squash" is true or false');
    expect(said).toContain("You can't use same project/branch for source and target");
    const many = Array.from({ length: 11 }, (_, n) => `topic:many-${n}`);
    expect(await pushAs(remote, many, ['mr.create'])).toContain('at most 10 branches');
    expect(await list()).toEqual([]);
    const branches = await runGit(tree, 'ls-remote', remote, 'refs/heads/*');
    expect(branches.split('\n')).toHaveLength(19);
    const { db } = app().hub.services;
    const due = await db
      .selectFrom('pushes')
      .select('id')
      .where('project_id', '=', project.id)
      .where('options_due', '=', true)
      .execute();
    expect(due).toEqual([]);
  });

  it('leaves out attributes that only Developers of the target may set, and refuses projects that the pusher cannot see', async () => {
    const { owner, path, people, project, pushAs, list, stranger } = await setUp({ visibility: 'public' });
    await app().settle();
    const { body: fork } = await stranger.post(`${path}/fork`);
    await app().settle();
    const remote = await remoteOf(app(), fork, people.stranger);
    // A fork proposes to the project that it comes from.
    const said = await pushAs(remote, ['topic'], ['mr.create', 'mr.label=forbidden']);
    expect(said).toContain(`${project.path_with_namespace}/-/merge_requests/1`);
    expect(await list()).toMatchObject([
      { source_project_id: fork.id, labels: [], author: { id: people.stranger.id } },
    ]);
    // A named target takes precedence, and so does the setting.
    const own = `mr.target_project=${fork.path_with_namespace}`;
    expect(await pushAs(remote, ['topic:second'], ['mr.create', own])).toContain(`${fork.path_with_namespace}/-/`);
    await stranger.put(`/projects/${fork.id}`, { mr_default_target_self: true });
    expect(await pushAs(remote, ['topic:third'], ['mr.create'])).toContain(`${fork.path_with_namespace}/-/`);
    const hidden = await app().make.project({ visibility: 'private' }, people.owner);
    const asked = `mr.target_project=${hidden.path_with_namespace}`;
    expect(await pushAs(remote, ['topic:fourth'], ['mr.create', asked])).toContain('does not exist');
    const other = await app().make.project({ visibility: 'public', initialize_with_readme: true }, people.owner);
    const unrelated = `mr.target_project=${other.path_with_namespace}`;
    expect(await pushAs(remote, ['topic:fifth'], ['mr.create', unrelated])).toContain('not a fork');
    await owner.put(path, { merge_requests_access_level: 'disabled' });
    expect(
      await pushAs(remote, ['topic:sixth'], ['mr.create', `mr.target_project=${project.path_with_namespace}`]),
    ).toMatch(/disabled merge requests|does not exist/);
  });

  it('is carried out later if the process died before it could', async () => {
    const { pushAs, remote, list, project, people } = await setUp();
    await pushAs(remote, ['topic'], []);
    const { db } = app().hub.services;
    const tip = await runGit(folder(), 'ls-remote', remote, 'refs/heads/topic');
    const command = { ref: 'refs/heads/topic', oldOid: null, newOid: tip.slice(0, 40) };
    const { id } = await db
      .insertInto('pushes')
      .values({
        project_id: project.id,
        user_id: people.owner.id,
        process_id: '00000000-0000-4000-8000-000000000000',
        commands: JSON.stringify([command]),
        refs: [command.ref],
        moved: [command.ref],
        state: 'recorded',
        push_options: JSON.stringify({ merge_request: { create: true, label: { late: 1 } } }),
        options_due: true,
      })
      .returning('id')
      .executeTakeFirstOrThrow();
    await settleDeadPushes(app().hub.services);
    await settleDeadPushes(app().hub.services);
    expect(await list()).toMatchObject([{ source_branch: 'topic', labels: ['late'] }]);
    const again = () => db.updateTable('pushes').set({ options_due: true }).where('id', '=', id).execute();
    await again();
    await settleDeadPushes(app().hub.services);
    expect(await list()).toHaveLength(1);
    // Nobody is left in whose name it could happen.
    await db.updateTable('users').set({ state: 'blocked' }).where('id', '=', people.owner.id).execute();
    await db.deleteFrom('merge_requests').where('project_id', '=', project.id).execute();
    await again();
    await settleDeadPushes(app().hub.services);
    const left = await db.selectFrom('pushes').select('options_due').where('id', '=', id).executeTakeFirstOrThrow();
    expect(left.options_due).toBe(false);
    const made = await db.selectFrom('merge_requests').select('id').where('project_id', '=', project.id).execute();
    expect(made).toEqual([]);
  });

  it('holds nobody up when it fails', async () => {
    const { pushAs, remote, list, project, people, tree } = await setUp();
    await pushAs(remote, ['topic'], []);
    const { db } = app().hub.services;
    const newOid = await runGit(tree, 'rev-parse', 'topic');
    const recorded = (options: unknown) => ({
      project_id: project.id,
      user_id: people.owner.id,
      process_id: '00000000-0000-4000-8000-000000000000',
      commands: JSON.stringify([{ ref: 'refs/heads/topic', oldOid: null, newOid }]),
      refs: ['refs/heads/topic'],
      moved: ['refs/heads/topic'],
      state: 'recorded' as const,
      push_options: JSON.stringify(options),
      options_due: true,
    });
    const unreadable = Array.from({ length: 101 }, () => recorded({ merge_request: 5 }));
    await db.insertInto('pushes').values(unreadable).execute();
    await db
      .insertInto('pushes')
      .values(recorded({ merge_request: { create: true, title: 'Behind them' } }))
      .execute();
    await settleDeadPushes(app().hub.services);
    expect(await list()).toMatchObject([{ title: 'Behind them' }]);
  });

  it('ends with the transaction of the push: a push settled by another process is carried out too', async () => {
    const { pushAs, remote, list, project, people, tree } = await setUp();
    await pushAs(remote, ['topic'], []);
    const { db } = app().hub.services;
    const newOid = await runGit(tree, 'rev-parse', 'topic');
    await db
      .insertInto('pushes')
      .values({
        project_id: project.id,
        user_id: people.owner.id,
        process_id: '00000000-0000-4000-8000-000000000000',
        commands: JSON.stringify([{ ref: 'refs/heads/topic', oldOid: null, newOid }]),
        refs: ['refs/heads/topic'],
        push_options: JSON.stringify({ merge_request: { create: true, title: 'Settled' } }),
      })
      .execute();
    await settleDeadPushes(app().hub.services);
    expect(await list()).toMatchObject([{ title: 'Settled' }]);
  });
});
