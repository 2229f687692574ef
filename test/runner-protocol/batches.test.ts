import { sql } from 'kysely';
import { describe, expect, it, vi } from 'vitest';
import { digestToken } from '#platform/secrets.ts';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { Protocol } from '../support/runner/protocol.ts';
import { makeRunner, queuePipeline, statusOf } from '../support/runner/queue.ts';

// Requests that arrive together are served in one transaction.

const app = useApp();

const runnerFor = async (tag: string, attributes: Record<string, unknown> = {}) => {
  const { token } = await makeRunner(app(), { tag_list: [tag], run_untagged: false, ...attributes });
  return { token, protocol: new Protocol({ url: app().url, token }) };
};

describe('requests that arrive together', () => {
  it('get a job each that their runner may take, in the order of the queue', async () => {
    const [first, second] = [await makeScene(app()), await makeScene(app())];
    const [red, blue] = [await runnerFor('red'), await runnerFor('blue')];
    const a = await queuePipeline(app(), { project_id: first.project.id }, jobsOf('red', 3));
    const b = await queuePipeline(app(), { project_id: second.project.id }, jobsOf('red', 3));
    const c = await queuePipeline(app(), { project_id: second.project.id }, [...jobsOf('blue', 2), { name: 'plain' }]);
    const requests = [red, blue].flatMap(({ token }) =>
      Array.from({ length: 4 }, () => new Protocol({ url: app().url, token }).requestReply()),
    );
    const replies = await Promise.all(requests);
    const taken = replies.map(({ status, text }) => (status === 201 ? Number(JSON.parse(text).id) : null));
    const [reds, blues] = [taken.slice(0, 4), taken.slice(4)].map((ids) =>
      ids.filter((id) => id !== null).sort(byNumber),
    );
    // Both projects have their turn.
    expect(reds).toEqual([...a.jobs.slice(0, 2), ...b.jobs.slice(0, 2)].sort(byNumber));
    expect(blues).toEqual(c.jobs.slice(0, 2));
    for (const id of [...(reds ?? []), ...(blues ?? [])]) expect((await statusOf(app(), id)).status).toBe('running');
    expect((await statusOf(app(), c.jobs[2] ?? 0)).status).toBe('pending');
    await app().settle();
    const { db } = app().hub.services;
    const pipelines = await db
      .selectFrom('pipelines')
      .innerJoin('stages', 'stages.pipeline_id', 'pipelines.id')
      .select(['pipelines.status', 'stages.status as stage', 'pipelines.started_at'])
      .where('pipelines.id', 'in', [a.id, b.id, c.id])
      .execute();
    expect(pipelines.map(({ status, stage }) => [status, stage])).toEqual(Array(3).fill(['running', 'running']));
    expect(pipelines.every(({ started_at }) => started_at !== null)).toBe(true);
  });

  it('of runners that may take the same jobs are served alike, except for those that were paused', async () => {
    const { project } = await makeScene(app());
    const runners = [await runnerFor('alike'), await runnerFor('alike'), await runnerFor('alike')];
    const { jobs } = await queuePipeline(app(), { project_id: project.id }, jobsOf('alike', 6));
    const { db } = app().hub.services;
    const ask = () => Promise.all(runners.map(({ token }) => new Protocol({ url: app().url, token }).requestReply()));
    const ids = (replies: Awaited<ReturnType<typeof ask>>) =>
      replies.map(({ status, text }) => (status === 201 ? Number(JSON.parse(text).id) : status));
    expect(ids(await ask()).sort(byNumber)).toEqual(jobs.slice(0, 3));
    const [paused] = runners;
    await sql`update runners set paused = true where digest = ${digestToken(paused?.token ?? '')}`.execute(db);
    const replies = ids(await ask());
    expect([replies[0], ...replies.slice(1).sort(byNumber)]).toEqual([204, ...jobs.slice(3, 5)]);
  });

  it('get jobs of a busy project when the others have too few', async () => {
    const [busy, idle] = [await makeScene(app()), await makeScene(app())];
    const { id, token } = await makeRunner(app(), { tag_list: ['few'], run_untagged: false });
    const many = await queuePipeline(app(), { project_id: busy.project.id }, jobsOf('few', 3));
    const few = await queuePipeline(app(), { project_id: idle.project.id }, jobsOf('few', 1));
    const { db } = app().hub.services;
    // So many that their turn comes after all candidates of the other project.
    await sql`insert into jobs (project_id, pipeline_id, name, status, runner_id)
      select ${busy.project.id}, ${many.id}, 'running ' || n, 'running', ${id} from generate_series(1, 60) n`.execute(
      db,
    );
    const replies = await Promise.all(
      Array.from({ length: 4 }, () => new Protocol({ url: app().url, token }).requestReply()),
    );
    expect(replies.map(({ text }) => Number(JSON.parse(text).id)).sort(byNumber)).toEqual(
      [...many.jobs, ...few.jobs].sort(byNumber),
    );
  });

  it('do not suffer from a job whose repository cannot be read', async () => {
    const [broken, sound] = [await makeScene(app(), { initialize_with_readme: true }), await makeScene(app())];
    const { token } = await runnerFor('shared');
    const bad = await queuePipeline(app(), { project_id: broken.project.id, sha: 'a'.repeat(40) }, jobsOf('shared', 1));
    const good = await queuePipeline(app(), { project_id: sound.project.id }, jobsOf('shared', 2));
    const { db, git } = app().hub.services;
    const { disk_path } = await db
      .selectFrom('projects')
      .select('disk_path')
      .where('id', '=', broken.project.id)
      .executeTakeFirstOrThrow();
    const { readCommits } = git;
    const reading = vi
      .spyOn(git, 'readCommits')
      .mockImplementation((path, oids) =>
        path === disk_path ? Promise.reject(new Error('the disk is damaged')) : readCommits(path, oids),
      );
    const replies = await Promise.all(
      Array.from({ length: 2 }, () => new Protocol({ url: app().url, token }).requestReply()),
    );
    reading.mockRestore();
    expect(replies.map(({ text }) => Number(JSON.parse(text).id)).sort(byNumber)).toEqual(good.jobs);
    expect(await statusOf(app(), bad.jobs[0] ?? 0)).toEqual({ status: 'failed', failure_reason: 'scheduler_failure' });
  });
});

const jobsOf = (tag: string, count: number) =>
  Array.from({ length: count }, (_, n) => ({ name: `${tag} ${n}`, tags: [tag] }));

const byNumber = (a: number, b: number) => a - b;
