import { createServer } from 'node:http';
import { describe, expect, it } from 'vitest';
import { type NormalizedEvent, recordEvents } from '#domains/error-tracking/event.ts';
import { prepareEvent } from '#domains/error-tracking/prepared-event.ts';
import { hit } from '#platform/caller/rate-limit.ts';
import { useApp } from '../support/app.ts';
import { errorEvent, exception, frame } from '../support/error-events.ts';
import { mutate } from '../support/graphql.ts';
import { mailsTo } from '../support/mails.ts';

const app = useApp();

const record = (events: readonly NormalizedEvent[]) =>
  app()
    .context()
    .transaction((tx) => recordEvents(tx, events.map(prepareEvent)));

const setUp = async () => {
  const group = await app().make.group();
  const project = await app().make.project({ visibility: 'private', namespace_id: group.id });
  const member = async (level: number) => {
    const user = await app().make.user();
    await app().make.projectMember(project, user, level);
    return user;
  };
  const thrown = (type: string, given: Partial<NormalizedEvent> = {}) =>
    errorEvent(project.id, { exceptions: [exception(type, 'wrong', [frame('main')])], ...given });
  const later = () => ({ timestamp: new Date(Date.now() + 1_000).toISOString() });
  const errorId = async (type: string): Promise<number> => {
    const { rows } = await app().hub.services.pool.query('select id from errors where project_id = $1 and type = $2', [
      project.id,
      type,
    ]);
    return rows[0].id;
  };
  const path: string = project.path_with_namespace;
  return { group, project, path, member, thrown, later, errorId };
};

/** Starts a receiver of hooks that accepts everything. */
const listen = async () => {
  const server = createServer((request, response) => request.resume().on('end', () => response.end()));
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (typeof address !== 'object' || address === null) throw new Error('the receiver has no port');
  return {
    url: `http://127.0.0.1:${address.port}/`,
    [Symbol.asyncDispose]: async () => {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
};

describe('hooks with error_tracking_events', () => {
  it('of projects and groups get new, regressed and resolved errors', async () => {
    const { group, project, path, member, thrown, later, errorId } = await setUp();
    const developer = await member(30);
    const root = app().as(app().root);
    await using receiver = await listen();
    await root.put('/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
    const hook = { url: receiver.url, push_events: false };
    const silent = await root.post(`/projects/${project.id}/hooks`, hook);
    expect(silent.body).toMatchObject({ error_tracking_events: false });
    const on = { ...hook, error_tracking_events: true };
    const ofProject = await root.post(`/projects/${project.id}/hooks`, on);
    expect(ofProject.body).toMatchObject({ error_tracking_events: true });
    const ofGroup = await root.post(`/groups/${group.id}/hooks`, on);
    expect(ofGroup.status).toBe(201);

    await record([thrown('Alpha', { release: '1.0' })]);
    const id = await errorId('Alpha');
    const gid = `gid://gitlab/ErrorTracking::Error/${id}`;
    await mutate(app().as(developer), 'errorTrackingErrorUpdate', { id: gid, assigneeUsername: developer.username });
    await mutate(app().as(developer), 'errorTrackingErrorUpdate', { id: gid, status: 'RESOLVED' });
    await record([thrown('Alpha', later())]);
    await app().settle();
    const { rows } = await app().hub.services.pool.query(
      `select p.trigger, p.body, array_agg(d.webhook_id order by d.webhook_id) as hooks
       from webhook_payloads p join webhook_deliveries d on d.payload_id = p.id
       where p.kind like 'error_tracking_error.%' and d.webhook_id = any ($1) group by p.id, p.created_at order by p.id`,
      [[silent.body.id, ofProject.body.id, ofGroup.body.id]],
    );
    expect(rows.map(({ trigger }) => trigger)).toEqual(Array(3).fill('error_tracking_events'));
    for (const { hooks } of rows) expect(hooks).toEqual([ofProject.body.id, ofGroup.body.id].sort((a, b) => a - b));
    const bodies = rows.map(({ body }) => JSON.parse(body));
    expect(bodies.map(({ object_attributes }) => object_attributes.action)).toEqual([
      'created',
      'resolved',
      'regressed',
    ]);
    expect(bodies[1]).toMatchObject({
      object_kind: 'error_tracking_error',
      user: { username: developer.username },
      project: { id: project.id, path_with_namespace: path },
      object_attributes: {
        id,
        status: 'resolved',
        title: 'Alpha: wrong',
        level: 'error',
        event_count: 1,
        first_release: '1.0',
        assignee_id: developer.id,
        url: `${app().url}/${path}/-/error_tracking/${id}/details`,
        first_seen: expect.stringMatching(/^\S{10} \S{8} UTC$/),
      },
    });
    expect(bodies[0].user).toBeNull();
  });
});

describe('mails about errors', () => {
  const set = (user: Parameters<ReturnType<typeof app>['as']>[0], projectPath: string, enabled: boolean) =>
    mutate(
      app().as(user),
      'errorTrackingNotificationsSet',
      { projectPath, enabled },
      'errorTracking { notificationsEnabled }',
    );

  it('go to those who asked for them and may still read errors', async () => {
    const { project, path, member, thrown, later, errorId } = await setUp();
    const [reader, actor, former, other] = [await member(20), await member(30), await member(20), await member(30)];
    for (const user of [reader, actor, former])
      expect(await set(user, path, true)).toMatchObject({ errorTracking: { notificationsEnabled: true } });
    await set(other, path, true);
    expect(await set(other, path, false)).toMatchObject({ errorTracking: { notificationsEnabled: false } });
    const guest = await member(10);
    const { errors } = await app()
      .as(guest)
      .graphql(
        `mutation { errorTrackingNotificationsSet(input: { projectPath: "${path}", enabled: true }) { errors } }`,
      );
    expect(errors?.[0]?.extensions?.code).toBe('FORBIDDEN');
    await app().as(app().root).delete(`/projects/${project.id}/members/${former.id}`);

    await record([thrown('Alpha', { release: '1.0', transaction: '/cart' }), thrown('Beta')]);
    const gid = `gid://gitlab/ErrorTracking::Error/${await errorId('Alpha')}`;
    await mutate(app().as(actor), 'errorTrackingErrorUpdate', { id: gid, status: 'RESOLVED' });
    await record([thrown('Alpha', later())]);
    const subjects = async (user: { readonly username: string }) =>
      (await mailsTo(app(), `${user.username}@example.com`)).map(({ subject }) => subject).sort();
    const mails = await mailsTo(app(), `${reader.username}@example.com`);
    expect(mails.find(({ subject }) => subject.includes('2 errors'))?.text).toContain('Alpha: wrong\n  in /cart\n');
    const [created, again, resolved] = [
      ': new: 2 errors',
      ': occurred again: Alpha: wrong',
      ': resolved: Alpha: wrong',
    ];
    expect(await subjects(reader)).toEqual([created, again, resolved].map((subject) => `${path}${subject}`));
    // They resolved it themselves.
    expect(await subjects(actor)).toEqual([created, again].map((subject) => `${path}${subject}`));
    expect(await subjects(former)).toEqual([]);
    expect(await subjects(other)).toEqual([]);
  });

  it('are at most sixty an hour for each user', async () => {
    const { path, member, thrown } = await setUp();
    const reader = await member(20);
    await set(reader, path, true);
    const rule = { limit: 60, seconds: 3_600 };
    for (let n = 0; n < 59; n++) await hit(app().hub.services, `error_tracking.mail:${reader.id}`, rule);
    await record([thrown('Alpha')]);
    await app().settle();
    await record([thrown('Beta')]);
    const mails = await mailsTo(app(), `${reader.username}@example.com`);
    expect(mails).toHaveLength(1);
    expect(mails[0]?.text).toContain('no more than 60 mails');
  });
});
