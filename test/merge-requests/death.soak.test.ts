import { randomUUID } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { connectPorts } from '#app/ports.ts';
import { autoMerge } from '#domains/merge-requests/merging/follow-auto-merges.ts';
import { settleMerges } from '#domains/merge-requests/merging/landing.ts';
import { mergeMergeRequest } from '#domains/merge-requests/merging.ts';
import { getMergeRequest } from '#domains/merge-requests/queries.ts';
import { rebaseMergeRequest } from '#domains/merge-requests/rebasing.ts';
import { getProject } from '#domains/projects/queries.ts';
import { settleDeadPushes } from '#domains/repositories/pushes.ts';
import type { Actor, Context, Services } from '#platform/context.ts';
import { createContextFactory } from '#platform/create-context.ts';
import { isDatabaseAway } from '#platform/db/failures.ts';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { pushCommits, README } from '../support/commits.ts';
import { until } from '../support/until.ts';
import { makeMergeRequest, tipOf } from './merge-scene.ts';

// A process that dies is played by one that stops for good before or after a transaction or a write of git. Its work
// until then stays. It has an id of its own, which is not among the living processes.

const app = useApp();

class Dead extends Error {}

/** Returns the database with another way to run transactions. */
const withTransaction = (db: Services['db'], transaction: () => unknown): Services['db'] =>
  new Proxy(db, {
    get: (target, name) => {
      if (name === 'transaction') return transaction;
      const value: unknown = Reflect.get(target, name, target);
      return typeof value === 'function' ? value.bind(target) : value;
    },
  });

/** Runs work in a process that dies at the given step. Returns false if the work ends before. */
const dieAt = async (deadly: number, actor: Actor, work: (ctx: Context) => Promise<unknown>): Promise<boolean> => {
  const living = app().hub.services;
  const { db, git } = living;
  let steps = 0;
  let die = (_died: true) => {};
  const death = new Promise<true>((resolve) => {
    die = resolve;
  });
  const step = (): Promise<void> => {
    steps += 1;
    if (steps < deadly) return Promise.resolve();
    die(true);
    return new Promise(() => {});
  };
  const mortal =
    <A extends readonly unknown[], R>(run: (...args: A) => Promise<R>) =>
    async (...args: A): Promise<R> => {
      // What lasts is only written inside of `run`. So death before a later call leaves what death after the call
      // before it left, and is not played again.
      if (steps === 0) await step();
      const result = await run(...args);
      await step();
      return result;
    };
  type Run = Parameters<ReturnType<typeof db.transaction>['execute']>[0];
  /** The database rolls the transactions of a dead process back. */
  const transaction = mortal(async (run: Run) => {
    const rolledBack = death.then(() => Promise.reject(new Dead()));
    return db
      .transaction()
      .execute((trx) => Promise.race([run(trx), rolledBack]))
      .catch((error: unknown) => (error instanceof Dead ? new Promise(() => {}) : Promise.reject(error)));
  });
  const services: Services = {
    ...living,
    processId: randomUUID(),
    git: {
      ...git,
      mergeCommits: mortal(git.mergeCommits),
      rebaseCommits: mortal(git.rebaseCommits),
      updateRefs: mortal(git.updateRefs),
    },
    db: withTransaction(db, () => ({ execute: transaction })),
  };
  connectPorts(services);
  const ctx = createContextFactory(services)({ actor });
  return Promise.race([death, work(ctx).then(() => false)]);
};

/**
 * Runs work in a process whose connection is lost at the commit of the given transaction, after which the database is
 * away for one more. Returns false if the work ends before.
 */
const loseConnectionAt = async (
  lost: number,
  actor: Actor,
  work: (ctx: Context) => Promise<unknown>,
): Promise<boolean> => {
  const living = app().hub.services;
  const { db } = living;
  let count = 0;
  type Run = Parameters<ReturnType<typeof db.transaction>['execute']>[0];
  const execute = async (run: Run) => {
    count += 1;
    const gone = new Error('Connection terminated unexpectedly');
    if (count === lost + 1) throw gone;
    const result = await db.transaction().execute(run);
    if (count === lost) throw gone;
    return result;
  };
  const services: Services = { ...living, db: withTransaction(db, () => ({ execute })) };
  connectPorts(services);
  await work(createContextFactory(services)({ actor })).catch((error: unknown) => {
    if (!isDatabaseAway(error)) throw error;
  });
  return count >= lost;
};

/** Lets the living processes recover the work of a dead one, without waiting for its time. */
const recover = async (id: number): Promise<void> => {
  await settleDeadPushes(app().hub.services);
  await app()
    .context()
    .transaction(async (tx) => {
      tx.enqueue(settleMerges, { id });
      tx.enqueue(rebaseMergeRequest, { id });
    });
  await app().settle();
  await app()
    .context()
    .transaction(async (tx) => tx.enqueue(autoMerge, { id }));
  await app().settle();
};

/**
 * Creates a project, and returns a function that opens its next merge request, like `makeMergeRequest` does. All deaths
 * share the project, which takes longer to create than a merge request.
 */
const makeProject = async () => {
  const scene = await makeScene(app());
  const { owner, path, people, project } = scene;
  await pushCommits(app(), project, people.owner, [README]);
  let iid = 0;
  const open = async (description = 'Why') => {
    iid += 1;
    const source = `feature-${iid}`;
    const [, head, target] = await pushCommits(app(), project, people.owner, [
      { branch: source, from: 'main', files: { [`one-${iid}.txt`]: 'text\n' } },
      { branch: source, files: { [`two-${iid}.txt`]: 'text\n' } },
      { branch: 'main', files: { [`other-${iid}.txt`]: 'text\n' } },
    ]);
    const made = await owner.post(`${path}/merge_requests`, {
      source_branch: source,
      target_branch: 'main',
      title: `Add two files (${iid})`,
      description,
    });
    expect([made.status, made.body.iid]).toEqual([201, iid]);
    await app().settle();
    return {
      ...{ iid, source, head, target, id: Number(made.body.id), at: `${path}/merge_requests/${iid}` },
      pushes: await count(project.id, 'push.received', 'refs/heads/main'),
      merged: await count(project.id, 'merge_request.merged'),
    };
  };
  return { ...scene, open };
};

const count = async (project_id: number, kind: string, ref?: string): Promise<number> => {
  const rows = await app()
    .hub.services.db.selectFrom('events')
    .select('payload')
    .where('project_id', '=', project_id)
    .where('kind', '=', kind)
    .execute();
  return rows.filter(({ payload }) => ref === undefined || JSON.stringify(payload).includes(`"ref":"${ref}"`)).length;
};

/** More than any of the works here has. */
const MAX_STEPS = 60;

describe('a process that dies', () => {
  it('while it merges, leaves the merge request merged with all that follows, or not merged', async () => {
    const { owner, people, path, project, open } = await makeProject();
    for (let deadly = 1, died = true; died; deadly += 1) {
      expect(deadly).toBeLessThan(MAX_STEPS);
      const { body: issue } = await owner.post(`${path}/issues`, { title: 'To be closed' });
      const { iid, source, at, id, head, target, pushes, merged } = await open(`Closes #${issue.iid}`);
      const { actor } = app().context(people.owner);
      died = await dieAt(deadly, actor, async (ctx) => {
        const current = await getProject(ctx, { id: project.id });
        const row = await getMergeRequest(ctx, current, iid);
        await mergeMergeRequest(ctx, current, row, { should_remove_source_branch: true });
      });
      await recover(id);
      const { body } = await owner.get(at);
      if (body.state === 'opened') {
        expect(await tipOf(owner, path, 'main'), `main after step ${deadly}`).toBe(target);
        expect(await tipOf(owner, path, source), `feature after step ${deadly}`).toBe(head);
        expect((await owner.put(`${at}/merge`, { should_remove_source_branch: true })).status).toBe(200);
        await app().settle();
      }
      const { body: after } = await owner.get(at);
      expect(after, `after step ${deadly}`).toMatchObject({
        state: 'merged',
        merge_user: { id: people.owner.id },
        merge_error: null,
      });
      expect(await tipOf(owner, path, 'main')).toBe(after.merge_commit_sha);
      expect(await count(project.id, 'merge_request.merged'), `merged events after step ${deadly}`).toBe(merged + 1);
      expect(await count(project.id, 'push.received', 'refs/heads/main')).toBe(pushes + 1);
      expect((await owner.get(`${path}/issues/${issue.iid}`)).body.state, `the issue after step ${deadly}`).toBe(
        'closed',
      );
      expect((await owner.get(`${path}/repository/branches/${source}`)).status).toBe(404);
    }
  });

  it('while it merges automatically, leaves the merge request merged in the end, once', async () => {
    const { owner, people, path, project, open } = await makeProject();
    for (let deadly = 1, died = true; died; deadly += 1) {
      expect(deadly).toBeLessThan(MAX_STEPS);
      const { at, id, pushes, merged } = await open();
      await owner.put(at, { merge_after: '2099-01-02T03:04:05Z' });
      expect((await owner.put(`${at}/merge`, { auto_merge: true })).status).toBe(200);
      await app().settle();
      // The time has come, and only the process that dies knows.
      const { db } = app().hub.services;
      await db.updateTable('merge_requests').set({ merge_after: null }).where('id', '=', id).execute();
      const job = { attempt: 1, lastAttempt: false };
      died = await dieAt(deadly, app().context().actor, (ctx) => autoMerge.run(ctx, { id }, job));
      await recover(id);
      const { body } = await owner.get(at);
      expect(body, `after step ${deadly}`).toMatchObject({
        state: 'merged',
        merge_user: { id: people.owner.id },
        merge_when_pipeline_succeeds: expect.any(Boolean),
      });
      expect(await tipOf(owner, path, 'main')).toBe(body.merge_commit_sha);
      expect(await count(project.id, 'merge_request.merged'), `merged events after step ${deadly}`).toBe(merged + 1);
      expect(await count(project.id, 'push.received', 'refs/heads/main')).toBe(pushes + 1);
    }
  });

  it('while it rebases, leaves the branch rebased in the end, once', async () => {
    for (let deadly = 1, died = true; died; deadly += 1) {
      expect(deadly).toBeLessThan(MAX_STEPS);
      const { owner, people, path, at, id, head, target, project } = await makeMergeRequest(app());
      const { db } = app().hub.services;
      const rebasing = JSON.stringify({ user_id: people.owner.id, skip_ci: false, head, oid: null });
      await db.updateTable('merge_requests').set({ rebasing }).where('id', '=', id).execute();
      const pushes = await count(project.id, 'push.received', 'refs/heads/feature');
      died = await dieAt(deadly, app().context().actor, (ctx) =>
        rebaseMergeRequest.run(ctx, { id }, { attempt: 1, lastAttempt: false }),
      );
      await recover(id);
      const { body } = await owner.get(`${at}?include_rebase_in_progress=true`);
      expect(body, `after step ${deadly}`).toMatchObject({
        state: 'opened',
        rebase_in_progress: false,
        merge_error: null,
        detailed_merge_status: 'mergeable',
      });
      const { body: commits } = await owner.get(`${path}/repository/commits?ref_name=feature`);
      expect(commits.map((each: { id: string }) => each.id)).toEqual([
        body.sha,
        expect.any(String),
        target,
        expect.any(String),
      ]);
      expect(await count(project.id, 'push.received', 'refs/heads/feature'), `pushes after step ${deadly}`).toBe(
        pushes + 1,
      );
    }
  });
});

describe('a process that loses its connection to the database', () => {
  it('while it merges, settles the merge soon', async () => {
    const { owner, people, path, project, open } = await makeProject();
    for (let lost = 1, isLost = true; isLost; lost += 1) {
      expect(lost).toBeLessThan(MAX_STEPS);
      const { iid, at, target, pushes, merged } = await open();
      const { actor } = app().context(people.owner);
      isLost = await loseConnectionAt(lost, actor, async (ctx) => {
        const current = await getProject(ctx, { id: project.id });
        await mergeMergeRequest(ctx, current, await getMergeRequest(ctx, current, iid), {});
      });
      const settled = await until(`the merge is settled after transaction ${lost}`, async () => {
        const { body } = await owner.get(at);
        return body.state !== 'locked' && body;
      });
      if (settled.state === 'opened') {
        expect(await tipOf(owner, path, 'main'), `main after transaction ${lost}`).toBe(target);
        expect((await owner.put(`${at}/merge`)).status, `transaction ${lost}`).toBe(200);
      }
      const { body: after } = await owner.get(at);
      expect(after).toMatchObject({ state: 'merged', merge_user: { id: people.owner.id } });
      expect(await tipOf(owner, path, 'main')).toBe(after.merge_commit_sha);
      expect(await count(project.id, 'merge_request.merged'), `transaction ${lost}`).toBe(merged + 1);
      await until(
        'the push is recorded',
        async () => (await count(project.id, 'push.received', 'refs/heads/main')) > pushes,
      );
    }
  });
});
