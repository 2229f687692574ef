import { PassThrough } from 'node:stream';
import { createClient } from 'graphql-sse';
import { sql } from 'kysely';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { jobs } from '#app/jobs.ts';
import { ensureDeliveryPartitions } from '#domains/hooks/delivery/partitions.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { unpack } from '#domains/transfers/importing/unpack.ts';
import { encodeCursor } from '#platform/cursor.ts';
import { Receiver } from '../hooks/receiver.ts';
import { useApp } from '../support/app.ts';
import { until } from '../support/until.ts';
import { packProject } from '../transfers/archive.ts';
import { downloadExport, runImport } from '../transfers/support.ts';

// Settings that say how long something lasts, before and after a change. The tests move rows into the past and run the
// job that looks for them.

const app = useApp();
const admin = () => app().as(app().root);
const db = () => app().hub.services.db;
const set = async (settings: Record<string, unknown>) => {
  const { status, body } = await admin().put('/application/settings', settings);
  expect([status, body.message ?? body.error]).toEqual([200, undefined]);
};
afterEach(() =>
  set({
    event_retention_days: 30,
    webhook_delivery_retention_days: 7,
    allow_local_requests_from_web_hooks_and_services: false,
    export_file_lifetime_hours: 24,
    decompress_archive_file_timeout: 210,
    deactivate_dormant_users: false,
    deactivate_dormant_users_period: 90,
  }),
);

/** Runs the job, again if a statement in progress holds a lock that it needs, as the workers do. */
const runJob = (name: string) =>
  until(`the job ${name}`, async () => {
    const job = jobs.find((each) => each.name === name);
    if (!job) throw new Error(`there is no job ${name}`);
    try {
      await job.run(app().context(), {}, { attempt: 1, lastAttempt: false });
      return true;
    } catch (error) {
      if (error instanceof Error && 'code' in error && error.code === '55P03') return false;
      throw error;
    }
  });

describe('event_retention_days', () => {
  /** Returns the kind of the first event that a subscriber with the oldest cursor gets, or the error. */
  const resume = async (projectPath: string): Promise<string> => {
    const client = createClient({
      url: `${app().url}/api/graphql`,
      retryAttempts: 0,
      headers: await admin().headers(),
    });
    const query = `subscription { events(scope: { projectPath: "${projectPath}" }, after: "${encodeCursor([0])}") { kind } }`;
    try {
      for await (const { data, errors } of client.iterate<{ events: { kind: string } }>({ query }))
        return data?.events.kind ?? JSON.stringify(errors);
      return 'nothing';
    } catch (error) {
      return JSON.stringify(error);
    } finally {
      client.dispose();
    }
  };

  it('is how long subscribers can resume with a cursor', async () => {
    const project = await app().make.project();
    await app().settle();
    await sql`update events set created_at = created_at - interval '10 days'`.execute(db());
    await runJob('events.prune');
    expect(await resume(project.path_with_namespace)).toBe('project.created');
    await set({ event_retention_days: 5 });
    await app().settle();
    await runJob('events.prune');
    expect(await resume(project.path_with_namespace)).toContain('older than the oldest event kept');
  });
});

describe('webhook_delivery_retention_days', () => {
  it('is how long deliveries are kept', async () => {
    await set({ allow_local_requests_from_web_hooks_and_services: true });
    await using receiver = await Receiver.start();
    const project = await app().make.project();
    const path = `/projects/${project.id}`;
    const hook = await admin().post(`${path}/hooks`, { url: receiver.url, issues_events: true, push_events: false });
    await admin().post(`${path}/issues`, { title: 'Something' });
    await app().settle();
    const deliveries = async () => (await admin().get(`${path}/hooks/${hook.body.id}/events`)).body.length;
    expect(await deliveries()).toBe(1);
    const past = new Date(Date.now() - 5 * 86_400_000);
    await ensureDeliveryPartitions(app().hub, [past]);
    await sql`
      with deliveries as (update webhook_deliveries set created_at = ${past}),
        payloads as (update webhook_payloads set created_at = ${past})
      update webhook_attempts set delivery_created_at = ${past}`.execute(db());
    await runJob('hooks.sweep');
    expect(await deliveries()).toBe(1);
    await set({ webhook_delivery_retention_days: 2 });
    await runJob('hooks.sweep');
    expect(await deliveries()).toBe(0);
  });
});

describe('export_file_lifetime_hours', () => {
  it('is how long a finished export can be downloaded', async () => {
    const exportedAgo = async (hours: number) => {
      const { id } = await app().make.project();
      await downloadExport(app(), app().root, id);
      await sql`
        update project_exports set expires_at = expires_at - make_interval(hours => ${hours}::int)
        where project_id = ${id}`.execute(db());
      await runJob('transfers.remove_expired');
      return (await admin().fetch('GET', `/projects/${id}/export/download`)).status;
    };
    expect(await exportedAgo(3)).toBe(200);
    await set({ export_file_lifetime_hours: 2 });
    expect(await exportedAgo(3)).toBe(404);
  });

  it('is how long a failed import can be retried', async () => {
    const archive = await packProject({ issues: [{ iid: 1, title: 'One' }] });
    const { id } = await runImport(app(), app().root, archive, { path: 'retried' });
    // As if it had failed three hours ago.
    await sql`
      update project_imports set status = 'failed', finished_at = now() - interval '3 hours', storage_key = 'imports/kept'
      where project_id = ${id}`.execute(db());
    const isKept = async () => {
      await runJob('transfers.remove_expired');
      return (
        (await sql`select from project_imports where project_id = ${id} and storage_key is not null`.execute(db())).rows
          .length === 1
      );
    };
    expect(await isKept()).toBe(true);
    await set({ export_file_lifetime_hours: 2 });
    expect(await isKept()).toBe(false);
    expect((await admin().post(`/projects/${id}/import/retry`)).body.message).toContain(
      'the archive of the import is gone',
    );
  });
});

describe('decompress_archive_file_timeout', () => {
  /** Unpacks an archive that sends nothing for so long and then ends. Returns the error. */
  const unpackAfter = async (seconds: number): Promise<unknown> => {
    const ctx = app().context();
    const settings = await getSettings(ctx);
    const stream = new PassThrough();
    const read = async () => ({ stream, size: 1 });
    const storage: typeof ctx.services.storage = Object.assign(Object.create(ctx.services.storage), { read });
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] });
    try {
      const unpacking = unpack({ ...ctx, services: { ...ctx.services, storage } }, ['x'], settings, new Set()).catch(
        (error: Error) => error.message,
      );
      // The reader of archives is loaded first.
      await until('the reader of archives', () => vi.getTimerCount() > 0);
      vi.advanceTimersByTime(seconds * 1_000);
      stream.end();
      return await unpacking;
    } finally {
      vi.useRealTimers();
    }
  };

  it('is how long an archive may take to unpack, and 0 is unlimited', async () => {
    const ended = expect.stringMatching(/^The archive is (truncated|empty)/);
    expect(await unpackAfter(200)).toEqual(ended);
    await set({ decompress_archive_file_timeout: 100 });
    expect(await unpackAfter(90)).toEqual(ended);
    expect(await unpackAfter(200)).toBe(
      'The archive takes too long to unpack: more than 100000 ms (decompress_archive_file_timeout).',
    );
    await set({ decompress_archive_file_timeout: 0 });
    expect(await unpackAfter(100_000)).toEqual(ended);
  });
});

describe('deactivate_dormant_users_period', () => {
  it('is the time without activity after which users are deactivated, and can be by an administrator', async () => {
    const ages = { created_at: '2020-01-01T00:00:00Z', last_activity_on: '2020-01-01' };
    const [dormant, other] = [await app().make.user(ages), await app().make.user(ages)];
    await sql`update users set last_activity_on = current_date - 100 where id in (${dormant.id}, ${other.id})`.execute(
      db(),
    );
    const stateOf = async ({ id }: { readonly id: number }) => (await admin().get(`/users/${id}`)).body.state;
    await set({ deactivate_dormant_users: true, deactivate_dormant_users_period: 120 });
    await runJob('users.deactivate_dormant');
    expect(await stateOf(dormant)).toBe('active');
    const refused = await admin().post(`/users/${other.id}/deactivate`);
    expect([refused.status, refused.body.message]).toEqual([
      403,
      expect.stringContaining('active in the past 120 days'),
    ]);
    await set({ deactivate_dormant_users_period: 90 });
    expect((await admin().post(`/users/${other.id}/deactivate`)).status).toBe(201);
    await runJob('users.deactivate_dormant');
    expect(await stateOf(dormant)).toBe('deactivated');
  });
});
