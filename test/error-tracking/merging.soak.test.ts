import { describe, expect, it } from 'vitest';
import { deleteError } from '#domains/error-tracking/errors/deletion.ts';
import { mergeErrors } from '#domains/error-tracking/errors/merging.ts';
import { type NormalizedEvent, recordEvents } from '#domains/error-tracking/event.ts';
import { prepareEvent } from '#domains/error-tracking/prepared-event.ts';
import { getProject } from '#domains/projects/queries.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { errorEvent, exception, frame } from '../support/error-events.ts';

const app = useApp();

const record = (events: readonly NormalizedEvent[]) =>
  app()
    .context()
    .transaction((tx) => recordEvents(tx, events.map(prepareEvent)));

const rows = async (text: string, ...values: unknown[]) => (await app().hub.services.pool.query(text, values)).rows;

const gid = (id: number) => `gid://gitlab/ErrorTracking::Error/${id}`;

const user = (id: string) => ({ id, username: null, email: null, ip_address: null, data: {} });

const setUp = async () => {
  const project = await app().make.project({ visibility: 'private' });
  const member = async (level: number) => {
    const user = await app().make.user();
    await app().make.projectMember(project, user, level);
    return user;
  };
  const thrown = (type: string, given: Partial<NormalizedEvent> = {}) =>
    errorEvent(project.id, { exceptions: [exception(type, 'wrong', [frame('main')])], ...given });
  const idOf = async (type: string): Promise<number> =>
    (await rows('select id from errors where project_id = $1 and type = $2', project.id, type))[0]?.id;
  return { project, member, thrown, idOf, developer: await member(30) };
};

const ERROR = `id title status level count userCount firstSeen lastSeenAt firstRelease lastRelease ignoredUntilCount
  assignee { username } issue { title } newestEvent { eventId } environments { value count } releases { value count }
  dailyCounts { count } events(first: 10) { nodes { eventId } }`;

const MERGE = `mutation ($input: ErrorTrackingErrorsMergeInput!) { errorTrackingErrorsMerge(input: $input) {
  errors error { ${ERROR} } } }`;

const merge = async (client: TestUser, id: number, ids: readonly number[]) => {
  const { data, errors } = await app()
    .as(client)
    .graphql(MERGE, { input: { id: gid(id), ids: ids.map(gid) } });
  return errors ? { top: errors[0]?.message } : data.errorTrackingErrorsMerge;
};

const errorOf = async (client: TestUser, path: string, id: number) =>
  (
    await app()
      .as(client)
      .graphql(
        `query ($path: ID!, $id: ErrorTrackingErrorID!) { project(fullPath: $path) { errorTracking { error(id: $id) { ${ERROR} } } } }`,
        { path, id: gid(id) },
      )
  ).data.project.errorTracking.error;

describe('merging errors', () => {
  it('adds counts, users and events, and takes the later events of all', async () => {
    const { project, thrown, idOf, developer } = await setUp();
    const at = (minutes: number) => new Date(Date.now() - minutes * 60_000).toISOString();
    const first = thrown('Beta', {
      ...{ timestamp: at(30), received_at: at(30), environment: 'test', release: '1.0', user: user('ann') },
    });
    const alpha = thrown('Alpha', {
      ...{ timestamp: at(20), received_at: at(20), environment: 'test', release: '2.0', user: user('ann') },
    });
    const newest = thrown('Gamma', {
      ...{ timestamp: at(10), received_at: at(10), environment: 'production', release: '3.0', user: user('ben') },
      level: 'fatal',
    });
    await record([first]);
    await record([alpha]);
    await record([newest]);
    const [id, beta, gamma] = [await idOf('Alpha'), await idOf('Beta'), await idOf('Gamma')];
    const client = app().as(developer);
    const update = (input: Record<string, unknown>) =>
      client.graphql(
        `mutation ($input: ErrorTrackingErrorUpdateInput!) { errorTrackingErrorUpdate(input: $input) { errors } }`,
        { input },
      );
    await update({ id: gid(id), status: 'IGNORED', ignoredEvents: 5 });
    await update({ id: gid(beta), assigneeUsername: developer.username });
    await client.graphql(
      `mutation { errorTrackingErrorCreateIssue(input: { id: "${gid(gamma)}", title: "Fix it" }) { errors } }`,
    );
    const merged = await merge(developer, id, [beta, gamma, beta]);
    expect(merged).toMatchObject({
      errors: [],
      error: {
        ...{ id: gid(id), title: 'Alpha: wrong', status: 'IGNORED', level: 'FATAL', count: 3, userCount: 2 },
        ...{ firstSeen: first.timestamp, lastSeenAt: newest.timestamp, firstRelease: '1.0', lastRelease: '3.0' },
        ...{ ignoredUntilCount: 8, assignee: { username: developer.username }, issue: { title: 'Fix it' } },
        newestEvent: { eventId: newest.event_id },
        environments: [
          { value: 'test', count: 2 },
          { value: 'production', count: 1 },
        ],
      },
    });
    expect(merged.error.dailyCounts.reduce((sum: number, { count }: { count: number }) => sum + count, 0)).toBe(3);
    const later = thrown('Beta');
    await record([later]);
    await app().settle();
    expect(await errorOf(developer, project.path_with_namespace, beta)).toBeNull();
    const { count, events } = await errorOf(developer, project.path_with_namespace, id);
    expect(count).toBe(4);
    expect(events.nodes.map(({ eventId }: { eventId: string }) => eventId)).toEqual(
      [later, newest, alpha, first].map(({ event_id }) => event_id),
    );
    expect(await rows('select * from error_merges where into_id = $1', id)).toEqual([]);
    expect(
      await rows(
        `select subject_id as id, (payload->>'into_id')::int as into_id from events
         where project_id = $1 and kind = 'error_tracking_error.merged' order by 1`,
        project.id,
      ),
    ).toEqual([beta, gamma].sort((a, b) => a - b).map((each) => ({ id: each, into_id: id })));
  });

  it('reopens a resolved error that gets an unresolved one, and keeps other statuses', async () => {
    const { project, thrown, idOf, developer } = await setUp();
    const mergeOf = async (kept: object, other: object) => {
      await rows('delete from errors where project_id = $1', project.id);
      await record([thrown('Kept', { release: '1.0' }), thrown('Other')]);
      const [id, otherId] = [await idOf('Kept'), await idOf('Other')];
      for (const input of [
        { id: gid(id), ...kept },
        { id: gid(otherId), ...other },
      ]) {
        const { data } = await app()
          .as(developer)
          .graphql(
            `mutation ($input: ErrorTrackingErrorUpdateInput!) { errorTrackingErrorUpdate(input: $input) { errors } }`,
            { input },
          );
        expect(data.errorTrackingErrorUpdate).toEqual({ errors: [] });
      }
      const { error } = await merge(developer, id, [otherId]);
      const [row] = await rows(
        'select status, resolved_at, resolved_by_id, resolved_release_id from errors where id = $1',
        id,
      );
      expect(error.status).toBe(row.status.toUpperCase());
      return row;
    };
    const open = { status: 'unresolved', resolved_at: null, resolved_by_id: null, resolved_release_id: null };
    const [unresolved, ignored] = [{ status: 'UNRESOLVED' }, { status: 'IGNORED' }];
    expect(await mergeOf({ status: 'RESOLVED', release: '1.0' }, unresolved)).toEqual(open);
    expect(await mergeOf({ status: 'RESOLVED_IN_NEXT_RELEASE' }, unresolved)).toEqual(open);
    const resolved = { status: 'resolved', resolved_at: expect.any(String), resolved_by_id: developer.id };
    expect(await mergeOf({ status: 'RESOLVED' }, { status: 'RESOLVED' })).toMatchObject(resolved);
    expect(await mergeOf({ status: 'RESOLVED' }, ignored)).toMatchObject(resolved);
    expect(await mergeOf(ignored, unresolved)).toMatchObject({ status: 'ignored' });
  });

  it('is for developers, within a project, and changes nothing if it is refused', async () => {
    const { project, thrown, idOf, member, developer } = await setUp();
    await record([thrown('Alpha'), thrown('Beta')]);
    const [id, beta] = [await idOf('Alpha'), await idOf('Beta')];
    const other = await setUp();
    await record([other.thrown('Delta')]);
    const foreign = await other.idOf('Delta');
    const unknown = { top: expect.stringContaining('does not exist') };
    expect(await merge(await member(20), id, [beta])).toMatchObject(unknown);
    expect(await merge(other.developer, id, [foreign])).toMatchObject(unknown);
    expect(await merge(developer, id, [beta, foreign])).toMatchObject(unknown);
    expect(await merge(developer, foreign, [beta])).toMatchObject(unknown);
    expect(await merge(developer, id, [])).toEqual({ errors: ['Ids must have 1 to 100 items'], error: null });
    expect(await merge(developer, id, [beta, id])).toEqual({
      errors: ['Ids must not have the error itself'],
      error: null,
    });
    expect(await rows('select type from errors where project_id = $1 order by 1', project.id)).toEqual([
      { type: 'Alpha' },
      { type: 'Beta' },
    ]);
  });

  it('brings events where they belong if the error is merged again or deleted before', async () => {
    const { project, thrown, idOf } = await setUp();
    const kept = [thrown('Alpha'), thrown('Beta'), thrown('Gamma')];
    await record([...kept, thrown('Delta'), thrown('Epsilon')]);
    const id = async (type: string) => idOf(type);
    const [alpha, beta, gamma] = [await id('Alpha'), await id('Beta'), await id('Gamma')];
    const [delta, epsilon] = [await id('Delta'), await id('Epsilon')];
    // In one transaction, so that no job runs in between.
    await app()
      .context()
      .transaction(async (tx) => {
        const row = await getProject(tx, { id: project.id });
        await mergeErrors(tx, row, beta, [gamma]);
        await mergeErrors(tx, row, alpha, [beta]);
        await mergeErrors(tx, row, delta, [epsilon]);
        await deleteError(tx, row, delta);
      });
    await app().settle();
    const left = await rows('select error_id, event_id::text from error_events where project_id = $1', project.id);
    expect(new Set(left.map(({ error_id }) => error_id))).toEqual(new Set([alpha]));
    expect(left.map(({ event_id }) => event_id.replaceAll('-', '')).sort()).toEqual(
      kept.map(({ event_id }) => event_id).sort(),
    );
  });

  it('estimates users by the thinner of two samples', async () => {
    const { thrown, idOf, developer } = await setUp();
    await record([thrown('Alpha', { user: user('ann') }), thrown('Beta', { user: user('ben') })]);
    const [id, beta] = [await idOf('Alpha'), await idOf('Beta')];
    // One of four hashes starts with two zero bits.
    const step = 2n ** 61n;
    const hashes = (from: bigint) => Array.from({ length: 4 }, (_, n) => String(from + BigInt(n) * step));
    await rows('delete from error_users where error_id in ($1, $2)', id, beta);
    const add = 'insert into error_users (error_id, hash) select $1, unnest($2::bigint[])';
    await rows(add, id, hashes(1n));
    await rows(add, beta, [hashes(1n)[0], hashes(2n)[0], hashes(3n)[0]]);
    await rows('update errors set user_count = 4 where id = $1', id);
    await rows('update errors set user_count = 12, user_sampling = 2 where id = $1', beta);
    expect(await merge(developer, id, [beta])).toMatchObject({ errors: [], error: { userCount: 12 } });
    expect(await rows('select user_sampling from errors where id = $1', id)).toEqual([{ user_sampling: 2 }]);
  });
});
