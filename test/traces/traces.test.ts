import { createClient } from 'graphql-sse';
import { sql } from 'kysely';
import { describe, expect, it } from 'vitest';
import { eraseTrace } from '#domains/traces/commands.ts';
import { archiveTraces, pruneTraces } from '#domains/traces/jobs.ts';
import { insertPipeline } from '../merge-requests/support.ts';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { appendTo } from '../support/runner/queue.ts';
import { until } from '../support/until.ts';

const app = useApp();
const db = () => app().hub.services.db;

/** A job with a log. */
const withLog = async (text: string, { status = 'success', visibility = 'private' } = {}) => {
  const made = await makeScene(app(), { visibility });
  const { jobs } = await insertPipeline(db(), { project_id: made.project.id }, [{ name: 'a', stage: 'test', status }]);
  const id = jobs[0] ?? 0;
  if (text !== '') await appendTo(app(), id, text);
  return { ...made, id, trace: `${made.path}/jobs/${id}/trace` };
};

const agesAgo = (id: number) =>
  db().updateTable('jobs').set({ updated_at: '2020-01-01T00:00:00Z' }).where('id', '=', id).execute();

const archive = () => archiveTraces.run(app().context(), {}, { attempt: 1, lastAttempt: false });

const prune = () => pruneTraces.run(app().context(), {}, { attempt: 1, lastAttempt: false });

/** The day before yesterday: the partition of yesterday may not be over for an hour yet. */
const arrivedDaysAgo = async (id: number, start: number) => {
  const then = new Date(Date.now() - 2 * 86_400_000);
  await sql`select make_time_partition('job_trace_chunks', 'day', ${then.toISOString()}::timestamptz)`.execute(db());
  await db()
    .updateTable('job_trace_chunks')
    .set({ received_at: then.toISOString() })
    .where('job_id', '=', id)
    .where('start', '=', start)
    .execute();
};

const chunks = async (id: number) => {
  const rows = await db()
    .selectFrom('job_trace_chunks')
    .select('start')
    .where('job_id', '=', id)
    .orderBy('start')
    .execute();
  return rows.map(({ start }) => start);
};

const stored = (id: number) => db().selectFrom('job_traces').selectAll().where('job_id', '=', id).executeTakeFirst();

describe('the log of a job', () => {
  it('is plain text, and empty if nothing was printed', async () => {
    const { owner, trace } = await withLog('<b>\u001b[32mgreen\u001b[0m</b>\n');
    const answer = await owner.get(trace);
    expect([answer.status, answer.body]).toEqual([200, '<b>\u001b[32mgreen\u001b[0m</b>\n']);
    expect(answer.headers.get('content-type')).toBe('text/plain; charset=utf-8');
    expect(answer.headers.get('x-content-type-options')).toBe('nosniff');
    const silent = await withLog('');
    const empty = await silent.owner.get(silent.trace);
    expect([empty.status, empty.body, empty.headers.get('content-length')]).toEqual([200, '', '0']);
  });

  it('is served in parts, from the database and from its file', async () => {
    const { owner, trace, id } = await withLog('0123456789');
    await appendTo(app(), id, 'abcdefghij');
    const parts = async () =>
      Promise.all(
        ['bytes=0-3', 'bytes=8-12', 'bytes=-5', 'bytes=15-', 'bytes=20-'].map(async (range) => {
          const { status, body } = await owner.get(trace, { range });
          return status === 206 ? body : status;
        }),
      );
    const expected = ['0123', '89abc', 'fghij', 'fghij', 416];
    expect(await parts()).toEqual(expected);
    await archive();
    // The job ended just now.
    expect((await stored(id))?.storage_key).toBeNull();
    await agesAgo(id);
    await archive();
    expect((await stored(id))?.storage_key).toMatch(/^traces\//);
    expect(await parts()).toEqual(expected);
    await arrivedDaysAgo(id, 0);
    await prune();
    expect(await chunks(id)).toEqual([10]);
    expect(await parts()).toEqual(expected);
    await arrivedDaysAgo(id, 10);
    await prune();
    expect(await chunks(id)).toEqual([]);
    expect(await parts()).toEqual(expected);
    expect((await owner.get(trace)).body).toBe('0123456789abcdefghij');
    expect((await appendTo(app(), id, 'late')).outcome).toBe('ended');
  });

  it('keeps its parts in the database until it is archived, however old they are', async () => {
    const [live, archived] = [await withLog('still running', { status: 'running' }), await withLog('ended')];
    for (const { id } of [live, archived]) await arrivedDaysAgo(id, 0);
    await agesAgo(archived.id);
    await archive();
    await prune();
    expect((await live.owner.get(live.trace)).body).toBe('still running');
    expect(await chunks(live.id)).toEqual([0]);
    await db().updateTable('jobs').set({ status: 'success' }).where('id', '=', live.id).execute();
    await agesAgo(live.id);
    await archive();
    await prune();
    expect([await chunks(live.id), await chunks(archived.id)]).toEqual([[], []]);
    expect((await live.owner.get(live.trace)).body).toBe('still running');
  });

  it('is removed with its file', async () => {
    const { owner, trace, id } = await withLog('gone\n');
    await agesAgo(id);
    await archive();
    const key = (await stored(id))?.storage_key ?? '';
    expect(await app().hub.services.storage.stat(key)).toEqual({ size: 5 });
    const erase = () =>
      app()
        .context()
        .transaction((tx) => eraseTrace(tx, id));
    expect(await erase()).toBe(true);
    expect((await owner.get(trace)).body).toBe('');
    const due = await db().selectFrom('storage_removals').select('due_at').where('storage_key', '=', key).execute();
    expect(due).toHaveLength(1);
    expect(await erase()).toBe(false);
  });

  it('is readable for everyone who may read the job', async () => {
    const { owner, trace, reporter, guest, stranger, path } = await withLog('text', { visibility: 'public' });
    for (const client of [owner, reporter, guest, stranger, app().anonymous]) {
      expect((await client.get(trace)).status).toBe(200);
    }
    await owner.put(path, { public_jobs: false });
    expect((await reporter.get(trace)).status).toBe(200);
    for (const client of [guest, stranger, app().anonymous]) expect((await client.get(trace)).status).not.toBe(200);
    const hidden = await withLog('text');
    expect((await hidden.stranger.get(hidden.trace)).status).toBe(404);
    expect((await hidden.guest.get(hidden.trace)).status).toBe(403);
    expect((await owner.get(`${path}/jobs/999999999/trace`)).status).toBe(404);
  });
});

describe('in GraphQL', () => {
  const query = `query ($path: ID!, $id: JobID!, $start: Int, $lines: Int) {
    project(fullPath: $path) { job(id: $id) { trace { size text(start: $start) htmlSummary(lastLines: $lines) } } } }`;

  it('has its size, text and last lines', async () => {
    const text = 'section_start:1700000000:step\r\u001b[0K\u001b[31mone\u001b[0m\n10%\r100%\n<two> & "three"\n';
    const { owner, project, id, reporter } = await withLog(text);
    const variables = { path: project.path_with_namespace, id: `gid://gitlab/Ci::Build/${id}` };
    const read = async (more = {}) => (await owner.graphql(query, { ...variables, ...more })).data.project.job.trace;
    expect(await read()).toEqual({
      size: String(Buffer.byteLength(text)),
      text,
      htmlSummary: 'one<br/>100%<br/>&lt;two&gt; &amp; &quot;three&quot;',
    });
    expect(await read({ start: text.length - 4, lines: 1 })).toMatchObject({
      text: text.slice(-4),
      htmlSummary: '&lt;two&gt; &amp; &quot;three&quot;',
    });
    expect((await owner.graphql(query, { ...variables, lines: 101 })).errors?.[0]?.message).toMatch('lastLines');
    expect((await owner.graphql(query, { ...variables, start: -1 })).errors?.[0]?.message).toMatch('start');
    await appendTo(app(), id, 'SECRET=1\n', true);
    expect((await reporter.graphql(query, variables)).data.project.job.trace).toBeNull();
    expect((await read()).text).toBe(`${text}SECRET=1\n`);
  });

  it('is followed line by line', async () => {
    const { people, id } = await withLog('one\ntw', { status: 'running' });
    const field = `ciJobTraceAppended(jobId: "gid://gitlab/Ci::Build/${id}", after: $after) { cursor start text }`;
    const follow = async (user: typeof people.owner) => {
      const client = createClient({
        url: `${app().url}/api/graphql`,
        headers: await app().as(user).headers(),
        retryAttempts: 0,
      });
      const seen: { start: string; text: string }[] = [];
      const failures: unknown[] = [];
      client.subscribe<{ ciJobTraceAppended: { start: string; text: string } }>(
        { query: `subscription ($after: String) { ${field} }`, variables: { after: null } },
        {
          next: ({ data, errors }) => {
            if (data?.ciJobTraceAppended) seen.push(data.ciJobTraceAppended);
            if (errors) failures.push(errors);
          },
          error: (error) => failures.push(error),
          complete: () => {},
        },
      );
      return { seen, failures, close: () => client.dispose() };
    };
    // A subscription without a cursor may still get what was written just before.
    await app().settle();
    const following = await follow(people.reporter);
    const refused = await follow(people.stranger);
    await until('the stranger is refused', () => refused.failures.length > 0);
    await until('the runner is told to send more often', async () => (await stored(id))?.watched_until !== null);
    await until('the lines arrive', async () => {
      await appendTo(app(), id, 'o\nthree\nfo');
      return following.seen.length > 0;
    });
    expect(following.seen[0]?.text).toMatch(/^(two\n)?three\n|^foo\nthree\n/);
    following.close();
    refused.close();
  });
});
