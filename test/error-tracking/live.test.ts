import { createClient } from 'graphql-sse';
import { afterEach, expect, it } from 'vitest';
import { announceCounts } from '#domains/error-tracking/digest/announce.ts';
import { type NormalizedEvent, recordEvents } from '#domains/error-tracking/event.ts';
import { prepareEvent } from '#domains/error-tracking/prepared-event.ts';
import { encodeCursor } from '#platform/cursor.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { errorEvent, exception, frame } from '../support/error-events.ts';
import { mutate } from '../support/graphql.ts';
import { until } from '../support/until.ts';

const app = useApp();
const START = encodeCursor([0]);
const closing: (() => void)[] = [];
afterEach(() => {
  for (const close of closing.splice(0)) close();
});

const record = (...events: readonly NormalizedEvent[]) =>
  app()
    .context()
    .transaction((tx) => recordEvents(tx, events.map(prepareEvent)));

const follow = async (user: TestUser, field: string, path: string, selection: string) => {
  const sse = createClient({
    url: `${app().url}/api/graphql`,
    headers: await app().as(user).headers(),
    retryAttempts: 0,
  });
  const seen: unknown[] = [];
  sse.subscribe<Record<string, unknown>>(
    { query: `subscription { ${field}(fullPath: "${path}", after: "${START}") ${selection} }` },
    {
      next: ({ data, errors }) => {
        seen.push(data?.[field] ?? JSON.stringify(errors));
      },
      error: (error) => {
        seen.push(JSON.stringify(error));
      },
      complete: () => undefined,
    },
  );
  closing.push(() => sse.dispose());
  return seen;
};

const CHANGE = '{ cursor at change errorId error { id title } mergedInto { id } }';

it('errors and their counts are followed by those who may read them', async () => {
  const project = await app().make.project({ visibility: 'public' });
  const path = project.path_with_namespace;
  const [developer, guest] = [await app().make.user(), await app().make.user()];
  await app().make.projectMember(project, developer, 30);
  await app().make.projectMember(project, guest, 10);
  const changes = await follow(developer, 'errorTrackingErrorUpdated', path, CHANGE);
  const counts = await follow(
    developer,
    'errorTrackingCountsUpdated',
    path,
    '{ cursor at errors { id count userCount firstSeen lastSeenAt } }',
  );
  await record(errorEvent(project.id), errorEvent(project.id));
  const [{ id }] = (await app().hub.services.pool.query('select id from errors where project_id = $1', [project.id]))
    .rows;
  const gid = `gid://gitlab/ErrorTracking::Error/${id}`;
  await announceCounts.run(app().context(), { project_id: project.id }, { attempt: 1, lastAttempt: false });
  const client = app().as(developer);
  await mutate(client, 'errorTrackingErrorUpdate', { id: gid, status: 'RESOLVED' });
  await record(errorEvent(project.id, { timestamp: new Date(Date.now() + 1_000).toISOString() }));
  await mutate(client, 'errorTrackingErrorUpdate', { id: gid, assigneeUsername: developer.username });
  await until('all changes', () => changes.length === 4);
  const cursor = expect.any(String);
  expect(changes).toEqual(
    ['CREATED', 'RESOLVED', 'REGRESSED', 'UPDATED'].map((change) => ({
      cursor,
      at: expect.any(String),
      change,
      errorId: gid,
      error: { id: gid, title: 'ValueError: wrong' },
      mergedInto: null,
    })),
  );
  await until('the counts', () => counts.length > 0);
  expect(counts[0]).toMatchObject({ cursor, errors: [{ id: gid, count: 2, userCount: 0 }] });

  for (const field of ['errorTrackingErrorUpdated', 'errorTrackingCountsUpdated'])
    for (const user of [guest, await app().make.user()]) {
      const { body } = await app()
        .as(user)
        .post(
          '/api/graphql',
          { query: `subscription { ${field}(fullPath: "${path}") { cursor } }` },
          { accept: 'text/event-stream' },
        );
      expect(JSON.stringify(body)).toContain('FORBIDDEN');
    }
});

it('errors that are merged or deleted are followed to their end', async () => {
  const project = await app().make.project();
  const maintainer = await app().make.user();
  await app().make.projectMember(project, maintainer, 40);
  const changes = await follow(maintainer, 'errorTrackingErrorUpdated', project.path_with_namespace, CHANGE);
  await record(
    ...['Alpha', 'Beta'].map((type) =>
      errorEvent(project.id, { exceptions: [exception(type, 'wrong', [frame('main')])] }),
    ),
  );
  const { rows } = await app().hub.services.pool.query('select id, type from errors where project_id = $1', [
    project.id,
  ]);
  const gidOf = (wanted: string) => `gid://gitlab/ErrorTracking::Error/${rows.find(({ type }) => type === wanted)?.id}`;
  const [alpha, beta] = [gidOf('Alpha'), gidOf('Beta')];
  await until('two new errors', () => changes.length === 2);
  const client = app().as(maintainer);
  await mutate(client, 'errorTrackingErrorsMerge', { id: alpha, ids: [beta] });
  await until('the merge', () => changes.length === 4);
  await mutate(client, 'errorTrackingErrorDestroy', { id: alpha });
  await until('the deletion', () => changes.length === 5);
  expect(changes.slice(2)).toMatchObject([
    { change: 'MERGED', errorId: beta, error: null, mergedInto: { id: alpha } },
    { change: 'UPDATED', errorId: alpha, error: { id: alpha }, mergedInto: null },
    { change: 'DELETED', errorId: alpha, error: null, mergedInto: null },
  ]);
});
