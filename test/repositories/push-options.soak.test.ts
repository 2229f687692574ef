import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { commitFile, eventsOf, remoteOf, runGit, tryGit, useFolder, workTree } from './support.ts';

const app = useApp();
const folder = useFolder();

const setUp = async () => {
  const owner = await app().make.user();
  const project = await app().make.project({}, owner);
  const tree = await workTree(folder());
  return { owner, project, tree, remote: await remoteOf(app(), project, owner) };
};

describe('git push -o', () => {
  it('passes options on to subscribers and hooks, and warns about unknown ones', async () => {
    const { project, tree, remote } = await setUp();
    const options = [
      'ci.skip',
      'ci.variable=A=1',
      'ci.variable=B=ü',
      'ci.variable=A=1',
      'mr.create',
      'nonsense',
      'ci.__proto__=x',
    ];
    const pushed = await tryGit(tree, 'push', ...options.flatMap((option) => ['-o', option]), remote, 'main');
    expect(pushed.code).toBe(0);
    expect(pushed.stderr).toContain('The push option "nonsense" is unknown');
    const [push] = await eventsOf(app(), project.id);
    const expected = {
      ci: { skip: true, variable: { 'A=1': 2, 'B=ü': 1 } },
      merge_request: { create: true },
    };
    expect(push?.payload.push_options).toEqual(expected);
    // The pack arrives complete after the options, and the next push has none of them.
    await commitFile(tree, 'big', 'x'.repeat(300_000), 'Second');
    await runGit(tree, 'push', '-q', '-o', 'ci.skip', remote, 'main', 'main:topic');
    const head = await commitFile(tree, 'third', 'x', 'Third');
    await runGit(tree, 'push', '-q', remote, 'main');
    const events = (await eventsOf(app(), project.id)).filter(({ kind }) => kind === 'push.received');
    expect(events.map(({ payload }) => payload.push_options)).toEqual([
      expected,
      { ci: { skip: true } },
      { ci: { skip: true } },
      undefined,
    ]);
    expect(await runGit(tree, 'ls-remote', remote, 'main')).toContain(head);
  });

  it('refuses too many or too long options', async () => {
    const { project, tree, remote } = await setUp();
    const many = Array.from({ length: 51 }, (_, n) => ['-o', `ci.variable=A${n}=1`]).flat();
    expect((await tryGit(tree, 'push', ...many, remote, 'main')).code).not.toBe(0);
    const long = await tryGit(tree, 'push', '-o', `ci.variable=${'x'.repeat(2_000)}`, remote, 'main');
    expect(long.code).not.toBe(0);
    expect(await eventsOf(app(), project.id)).toEqual([]);
  });

  it('shows why the push was refused', async () => {
    const { tree, remote, owner, project } = await setUp();
    await app().as(owner).post(`/projects/${project.id}/push_rule`, { branch_name_regex: '^ok' });
    await runGit(tree, 'push', '-q', remote, 'main');
    const refused = await tryGit(tree, 'push', '-o', 'mr.create', '-o', 'nonsense', remote, 'main:bad');
    expect(refused.code).not.toBe(0);
    expect(refused.stderr).toContain('branch_name_regex');
    expect(refused.stderr).toContain('"nonsense" is unknown');
    expect(refused.stderr).not.toContain('merge request');
  });
});
