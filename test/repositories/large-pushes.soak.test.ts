import diagnostics from 'node:diagnostics_channel';
import { appendFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import pg from 'pg';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { useApp } from '../support/app.ts';
import { pushTree } from '../support/commits.ts';
import { commitFile, eventsOf, remoteOf, runGit, tryGit, useFolder, workTree } from './support.ts';

// The cost of a push must not grow with its refs. These tests count processes of the hub, statements and disk syncs.

const app = useApp();
const folder = useFolder();
const MANY = 500;
/** The statements the hub may run by itself meanwhile. One statement for each ref would be five hundred more. */
const SLACK = 200;

afterEach(() => vi.restoreAllMocks());

const setUp = async () => {
  const owner = await app().make.user();
  const project = await app().make.project({ visibility: 'private' }, owner);
  const tree = await workTree(folder());
  const remote = await remoteOf(app(), project, owner);
  await pushTree(app(), project, owner, tree, 'main');
  await app().settle();
  return { owner, project, tree, remote };
};

const createBranches = async (tree: string, names: readonly string[]): Promise<void> => {
  const head = await runGit(tree, 'rev-parse', 'HEAD');
  const file = join(tree, '.git', 'packed-refs');
  await writeFile(file, '# pack-refs with: peeled fully-peeled sorted \n');
  for (const name of [...names].sort()) await appendFile(file, `${head} refs/heads/${name}\n`);
};
const numbered = (count: number) => Array.from({ length: count }, (_, n) => `feature/b${n}`);
const branchesAt = async (remote: string): Promise<string[]> => {
  const text = await runGit(folder(), 'ls-remote', '--heads', remote);
  return text === '' ? [] : text.split('\n').map((line) => line.split('\trefs/heads/')[1] ?? '');
};

/** Returns how many statements the hub sent and how many git processes it started during the work. */
const costOf = async (work: () => Promise<unknown>) => {
  const query = vi.spyOn(pg.Client.prototype, 'query');
  let processes = 0;
  const onStart = (message: unknown) => {
    if (typeof message !== 'object' || message === null || !('process' in message)) return;
    const { process } = message;
    // Count only the hub's git, since the git of the tests gets no `--git-dir`.
    const isHubs = (args: unknown) => Array.isArray(args) && args.some((arg) => `${arg}`.startsWith('--git-dir='));
    if (typeof process === 'object' && process !== null && 'spawnargs' in process && isHubs(process.spawnargs))
      processes += 1;
  };
  diagnostics.subscribe('child_process', onStart);
  try {
    await work();
    return { statements: query.mock.calls.length, processes };
  } finally {
    diagnostics.unsubscribe('child_process', onStart);
    query.mockRestore();
  }
};

describe('a push of many branches', () => {
  it('takes as few processes and statements as a push of ten, to create and to delete, with an event for each branch', async () => {
    const costs = [];
    for (const count of [10, MANY]) {
      const { project, tree, remote } = await setUp();
      await createBranches(tree, numbered(count));
      const created = await costOf(() =>
        runGit(tree, 'push', '-q', remote, 'refs/heads/feature/*:refs/heads/feature/*'),
      );
      expect(await branchesAt(remote)).toHaveLength(count + 1);
      await app().settle();
      // Housekeeping packs the refs, and git rewrites the packed file for each deletion.
      await app().hub.services.git.gc(await diskPathOf(project.id));
      const deletions = numbered(count).map((name) => `:refs/heads/${name}`);
      const deleted = await costOf(() => runGit(tree, 'push', '-q', remote, ...deletions));
      expect(await branchesAt(remote)).toEqual(['main']);
      const events = (await eventsOf(app(), project.id)).slice(2);
      expect(events).toHaveLength(2 * (count + 1));
      expect(events.at(-1)?.payload.changes).toHaveLength(count);
      costs.push({ created, deleted });
    }
    const [few, many] = costs;
    for (const what of ['created', 'deleted'] as const) {
      expect(many?.[what].processes).toBeLessThanOrEqual((few?.[what].processes ?? 0) + 2);
      expect(many?.[what].statements).toBeLessThan((few?.[what].statements ?? 0) + SLACK);
    }
  });

  it('takes few processes to delete them all as merged', async () => {
    const { owner, project, tree, remote } = await setUp();
    await createBranches(tree, numbered(MANY));
    await runGit(tree, 'push', '-q', remote, 'refs/heads/feature/*:refs/heads/feature/*');
    await commitFile(tree, 'more', 'more', 'More');
    await runGit(tree, 'push', '-q', remote, 'main');
    await app().settle();
    const cost = await costOf(async () => {
      await app().as(owner).delete(`/projects/${project.id}/repository/merged_branches`);
      await app().settle();
    });
    expect(await branchesAt(remote)).toEqual(['main']);
    expect(cost.processes).toBeLessThan(30);
  });
});

describe('a push of a hundred refs and more', () => {
  it('moves all refs or none, while a smaller push moves those it can', async () => {
    const { project, tree, remote } = await setUp();
    await runGit(tree, 'push', '-q', remote, 'main:refs/heads/taken');
    const before = await eventsOf(app(), project.id);
    for (const [count, moved] of [
      [120, []],
      [20, numbered(20)],
    ] as const) {
      await createBranches(tree, [...numbered(count), 'taken/below']);
      const { code, stderr } = await tryGit(tree, 'push', remote, ...numbered(count), 'taken/below');
      expect(code).not.toBe(0);
      expect(stderr).toContain('taken');
      expect((await branchesAt(remote)).sort()).toEqual([...moved, 'main', 'taken'].sort());
      expect(await eventsOf(app(), project.id)).toHaveLength(before.length + (moved.length && moved.length + 1));
    }
  });

  it('moves nothing if it includes a protected branch or a hidden ref', async () => {
    const { owner, project, tree, remote } = await setUp();
    const developer = await app().make.user();
    await app().as(owner).post(`/projects/${project.id}/members`, { user_id: developer.id, access_level: 30 });
    await app().as(owner).post(`/projects/${project.id}/protected_branches`, { name: 'feature/b77' });
    await createBranches(tree, numbered(150));
    const theirs = await remoteOf(app(), project, developer);
    const all = 'refs/heads/feature/*:refs/heads/feature/*';
    for (const [to, refs] of [
      [theirs, [all]],
      [theirs, ['--atomic', all]],
      [remote, [all, 'main:refs/merge-requests/1/head']],
      [remote, [all, 'main:refs/keep-around/x']],
    ] as const) {
      expect(
        (
          await tryGit(
            tree,
            'push',
            ...refs.filter((ref) => ref === '--atomic'),
            to,
            ...refs.filter((ref) => ref !== '--atomic'),
          )
        ).code,
      ).not.toBe(0);
      expect(await branchesAt(remote)).toEqual(['main']);
    }
    await app().settle();
    expect(await eventsOf(app(), project.id)).toHaveLength(2);
  });

  it('can replace a branch with one below its name', async () => {
    const { tree, remote } = await setUp();
    await runGit(tree, 'push', '-q', remote, 'main:refs/heads/taken');
    await createBranches(tree, [...numbered(120), 'taken/below']);
    await runGit(tree, 'push', '-q', remote, ':taken', ...numbered(120), 'taken/below');
    expect(await branchesAt(remote)).toContain('taken/below');
    expect(await branchesAt(remote)).toHaveLength(122);
  });
});

const diskPathOf = async (id: number): Promise<string> => {
  const { db } = app().hub.services;
  return (await db.selectFrom('projects').select('disk_path').where('id', '=', id).executeTakeFirstOrThrow()).disk_path;
};
