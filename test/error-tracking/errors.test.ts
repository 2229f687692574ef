import { describe, expect, it } from 'vitest';
import {
  type NormalizedEvent,
  recordEvents,
  recordSessions,
  recordUserReports,
} from '#domains/error-tracking/event.ts';
import { prepareEvent } from '#domains/error-tracking/prepared-event.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { errorEvent, eventId, exception, frame } from '../support/error-events.ts';

const app = useApp();

const record = (events: readonly NormalizedEvent[]) =>
  app()
    .context()
    .transaction((tx) => recordEvents(tx, events.map(prepareEvent)));

const setUp = async () => {
  const owner = await app().make.user();
  const project = await app().make.project({ visibility: 'private' }, owner);
  const member = async (level: number) => {
    const user = await app().make.user();
    await app().make.projectMember(project, user, level);
    return user;
  };
  const [developer, reporter] = [await member(30), await member(20)];
  const thrown = (type: string, given: Partial<NormalizedEvent> = {}) =>
    errorEvent(project.id, { exceptions: [exception(type, 'wrong', [frame('main')])], ...given });
  return { project, path: project.path_with_namespace, developer, reporter, member, thrown };
};

const ask = (user: TestUser, query: string, variables: Record<string, unknown>) =>
  app().as(user).graphql(query, variables);

const LIST = `query ($path: ID!, $search: String, $status: ErrorTrackingErrorStatus, $level: ErrorTrackingLevel,
    $environment: String, $release: String, $assignee: UserID, $since: Time, $sort: ErrorTrackingErrorSort, $first: Int, $after: String) {
  project(fullPath: $path) { errorTracking { errors(search: $search, status: $status, level: $level,
      environment: $environment, release: $release, assigneeId: $assignee, seenSince: $since, sort: $sort, first: $first, after: $after) {
    count nodes { id type } pageInfo { endCursor hasNextPage } } } } }`;

const list = async (user: TestUser, path: string, variables: Record<string, unknown> = {}) => {
  const { data, errors } = await ask(user, LIST, { path, ...variables });
  expect(errors).toBeUndefined();
  return data.project.errorTracking.errors;
};
const typesIn = async (user: TestUser, path: string, variables: Record<string, unknown> = {}): Promise<string[]> =>
  (await list(user, path, variables)).nodes.map(({ type }: { type: string }) => type);

const UPDATE = `mutation ($input: ErrorTrackingErrorUpdateInput!) { errorTrackingErrorUpdate(input: $input) {
  errors error { id status assignee { username } issue { iid state } resolvedAt resolvedBy { username }
    resolvedRelease ignoredUntil ignoredUntilCount regressedAt } } }`;

const update = async (user: TestUser, input: Record<string, unknown>) => {
  const { data, errors } = await ask(user, UPDATE, { input });
  return errors ? { top: errors[0]?.message } : data.errorTrackingErrorUpdate;
};

const idOf = async (user: TestUser, path: string, type: string): Promise<string> =>
  (await list(user, path)).nodes.find((node: { type: string }) => node.type === type).id;

describe('the errors of a project', () => {
  it('are searched, filtered, sorted and paged', async () => {
    const { path, reporter, thrown } = await setUp();
    const user = (id: string) => ({ user: { id, username: null, email: null, ip_address: null, data: {} } });
    const at = (hour: number) => ({ timestamp: `2026-11-20T${hour}:00:00.000Z` });
    await record([
      thrown('Alpha', { ...at(10), ...user('1'), environment: 'prod', release: '1.0' }),
      thrown('Alpha', { ...at(11), ...user('2'), environment: 'test' }),
      thrown('Beta', { ...at(12), ...user('1'), environment: 'prod', release: '1.1', level: 'fatal' }),
      thrown('Gamma', { ...at(13), transaction: '/100%_cart' }),
      thrown('Gamma', { ...at(14), transaction: '/100%_cart' }),
      thrown('Gamma', { timestamp: '2026-11-01T10:00:00.000Z' }),
    ]);
    const types = (variables: Record<string, unknown> = {}) => typesIn(reporter, path, variables);
    expect(await types()).toEqual(['Gamma', 'Beta', 'Alpha']);
    expect(await types({ sort: 'LAST_SEEN_ASC' })).toEqual(['Alpha', 'Beta', 'Gamma']);
    expect(await types({ sort: 'FIRST_SEEN_DESC' })).toEqual(['Beta', 'Alpha', 'Gamma']);
    expect(await types({ sort: 'COUNT_DESC' })).toEqual(['Gamma', 'Alpha', 'Beta']);
    expect(await types({ sort: 'USER_COUNT_DESC' })).toEqual(['Alpha', 'Beta', 'Gamma']);
    expect(await types({ search: 'ALPH' })).toEqual(['Alpha']);
    expect(await types({ search: '0%_c' })).toEqual(['Gamma']);
    expect(await types({ search: '0__c' })).toEqual([]);
    expect(await types({ level: 'FATAL' })).toEqual(['Beta']);
    expect(await types({ environment: 'prod' })).toEqual(['Beta', 'Alpha']);
    expect(await types({ environment: 'prod', release: '1.0' })).toEqual(['Alpha']);
    expect(await types({ since: '2026-11-20T12:00:00Z' })).toEqual(['Gamma', 'Beta']);
    expect(await types({ since: '2026-11-20T14:00:01+00:00', sort: 'COUNT_DESC' })).toEqual([]);
    expect(await types({ status: 'RESOLVED' })).toEqual([]);
    expect(await types({ status: 'UNRESOLVED' })).toHaveLength(3);

    const first = await list(reporter, path, { first: 2, sort: 'COUNT_DESC' });
    expect(first).toMatchObject({
      count: 3,
      nodes: [{ type: 'Gamma' }, { type: 'Alpha' }],
      pageInfo: { hasNextPage: true },
    });
    expect(await types({ first: 2, sort: 'COUNT_DESC', after: first.pageInfo.endCursor })).toEqual(['Beta']);
    const tooLong = await ask(reporter, LIST, { path, search: 'x'.repeat(201) });
    expect(tooLong.errors?.[0]?.message).toContain('too long');
  });

  it('are read by reporters, changed by developers, and hidden from others', async () => {
    const { path, project, developer, reporter, member, thrown } = await setUp();
    await record([thrown('Alpha')]);
    const id = await idOf(reporter, path, 'Alpha');
    const other = await setUp();
    const guest = await member(10);
    const read = `query ($path: ID!, $id: ErrorTrackingErrorID!, $sentry: GitlabErrorTrackingDetailedErrorID!) {
      project(fullPath: $path) { errorTracking { error(id: $id) { type } releases { nodes { version } } }
        sentryErrors { errors { nodes { id } } detailedError(id: $sentry) { id } }
        sentryDetailedError(id: $sentry) { id } } }`;
    const seenBy = async (user: TestUser, on = path) =>
      (await ask(user, read, { path: on, id, sentry: id })).data.project;
    expect((await seenBy(reporter)).errorTracking.error).toEqual({ type: 'Alpha' });
    expect(await seenBy(guest)).toEqual({ errorTracking: null, sentryErrors: null, sentryDetailedError: null });
    expect(await seenBy(other.reporter)).toBeNull();
    // An error is found only in its own project.
    expect(await seenBy(other.reporter, other.path)).toMatchObject({
      errorTracking: { error: null },
      sentryErrors: { errors: { nodes: [] }, detailedError: null },
    });

    const refused = { top: expect.stringContaining("don't have permission") };
    for (const user of [reporter, guest, other.developer]) {
      expect(await update(user, { id, status: 'RESOLVED' })).toEqual(refused);
      const created = await ask(
        user,
        `mutation ($id: ErrorTrackingErrorID!) { errorTrackingErrorCreateIssue(input: { id: $id }) { errors } }`,
        { id },
      );
      expect(created.errors?.[0]?.message).toContain("don't have permission");
    }
    expect(await update(developer, { id: 'gid://gitlab/ErrorTracking::Error/999999', status: 'RESOLVED' })).toEqual(
      refused,
    );
    expect(await typesIn(reporter, path, { status: 'UNRESOLVED' })).toEqual(['Alpha']);
    await app().as(app().root).post(`/projects/${project.id}/archive`);
    expect(await update(developer, { id, status: 'RESOLVED' })).toEqual(refused);
  });

  it('show their newest event with everything that was reported', async () => {
    const { path, project, reporter, thrown } = await setUp();
    const source = { pre_context: ['a', 'b'], context_line: 'c', post_context: ['d'], lineno: 12, vars: { x: 1 } };
    const full: Partial<NormalizedEvent> = {
      event_id: eventId(),
      exceptions: [exception('Cause', 'first'), exception('Alpha', 'wrong', [frame('main', source)])],
      message: { template: 'x %s', formatted: 'x y' },
      logger: 'app.db',
      transaction: '/cart',
      server_name: 'web1',
      dist: '7',
      environment: 'prod',
      release: 'shop@1.0',
      breadcrumbs: [
        {
          timestamp: '2026-11-20T10:00:00.000Z',
          type: 'http',
          category: 'fetch',
          level: 'info',
          message: 'GET',
          data: { status: 500 },
        },
      ],
      request: {
        url: 'http://shop.example/',
        method: 'GET',
        query_string: 'a=1',
        cookies: { a: 'b' },
        headers: { Accept: '*/*' },
        env: { A: '1' },
        data: { b: 2 },
      },
      user: { id: '7', username: 'ann', email: 'ann@example.com', ip_address: '127.0.0.1', data: { plan: 'pro' } },
      tags: { browser: 'Firefox', os: 'Linux' },
      extra: { a: 1 },
      contexts: { runtime: { name: 'node' } },
      modules: { left: '1.0' },
      sdk: { name: 'sentry.javascript.node', version: '10' },
      stack: [frame('outer')],
    };
    const first = thrown('Alpha', {
      ...full,
      event_id: eventId(),
      received_at: '2026-11-20T10:00:00.000Z',
      environment: 'test',
      tags: { browser: 'Chrome' },
    });
    const newest = thrown('Alpha', full);
    await record([newest, first]);
    await app()
      .context()
      .transaction((tx) =>
        recordUserReports(tx, [
          {
            project_id: project.id,
            event_id: newest.event_id,
            name: 'Ann',
            email: 'ann@example.com',
            comments: 'It broke',
            received_at: newest.received_at,
          },
        ]),
      );
    const id = await idOf(reporter, path, 'Alpha');
    const { data, errors } = await ask(
      reporter,
      `query ($path: ID!, $id: ErrorTrackingErrorID!, $event: String!) { project(fullPath: $path) { errorTracking {
        hourlyCounts { time count } dailyCounts { time count } error(id: $id) {
        title culprit platform level count userCount userCountIsExact firstSeen lastSeen lastSeenAt firstRelease lastRelease
        createdAt updatedAt project { fullPath }
        hourlyCounts { time count } dailyCounts { time count } environments { value count firstSeen lastSeen } releases { value count }
        tags { key total values { value count } }
        event(eventId: $event) { environment } missing: event(eventId: "x") { eventId }
        events(first: 5) { count nodes { eventId occurredAt level } }
        ofTest: events(environment: "test", release: "shop@1.0") { nodes { eventId } }
        newestEvent { eventId receivedAt occurredAt environment release platform message logger transaction serverName dist
          tags { key value } extra contexts modules sdk payload
          exceptions { type value module mechanism handled frames { function module package filename absPath lineNumber columnNumber inApp vars source { line code } } }
          stack { function } breadcrumbs { timestamp type category level message data }
          request { url method queryString headers cookies env data }
          user { id username email ipAddress data } userReport { name email comments receivedAt } } } } } }`,
      { path, id, event: first.event_id },
    );
    expect(errors).toBeUndefined();
    const { error } = data.project.errorTracking;
    const now = newest.timestamp;
    expect(error).toMatchObject({
      title: 'Alpha: wrong',
      culprit: '/cart',
      platform: 'python',
      level: 'ERROR',
      count: 2,
      userCount: 1,
      userCountIsExact: true,
      lastSeenAt: now,
      firstRelease: 'shop@1.0',
      lastRelease: 'shop@1.0',
      project: { fullPath: path },
      environments: [
        { value: 'prod', count: 1 },
        { value: 'test', count: 1 },
      ],
      releases: [{ value: 'shop@1.0', count: 2 }],
      tags: [
        {
          key: 'browser',
          total: 2,
          values: [
            { value: 'Chrome', count: 1 },
            { value: 'Firefox', count: 1 },
          ],
        },
        { key: 'os', total: 1, values: [{ value: 'Linux', count: 1 }] },
      ],
      event: { environment: 'test' },
      missing: null,
      events: { count: 2, nodes: [{ eventId: newest.event_id }, { eventId: first.event_id }] },
      ofTest: { nodes: [{ eventId: first.event_id }] },
    });
    // The last sight is shown by full hours, and never before the first.
    const hour = `${now.slice(0, 13)}:00:00.000Z`;
    expect(error.lastSeen).toBe(hour > error.firstSeen ? hour : error.firstSeen);
    const sum = (bars: readonly { count: number }[]) => bars.reduce((total, { count }) => total + count, 0);
    expect([error.hourlyCounts.length, error.dailyCounts.length]).toEqual([24, 14]);
    expect([sum(error.hourlyCounts), sum(error.dailyCounts)]).toEqual([2, 2]);
    const { hourlyCounts, dailyCounts } = data.project.errorTracking;
    expect([sum(hourlyCounts), sum(dailyCounts)]).toEqual([2, 2]);
    expect(error.newestEvent).toMatchObject({
      eventId: newest.event_id,
      environment: 'prod',
      message: 'x y',
      logger: 'app.db',
      transaction: '/cart',
      serverName: 'web1',
      dist: '7',
      tags: [
        { key: 'browser', value: 'Firefox' },
        { key: 'os', value: 'Linux' },
      ],
      extra: { a: 1 },
      contexts: { runtime: { name: 'node' } },
      modules: { left: '1.0' },
      sdk: { name: 'sentry.javascript.node', version: '10' },
      payload: { fingerprint: [], cut: [], timestamp: now },
      exceptions: [
        { type: 'Cause', value: 'first', frames: [] },
        {
          type: 'Alpha',
          frames: [
            {
              function: 'main',
              filename: 'app.py',
              lineNumber: 12,
              inApp: true,
              vars: { x: 1 },
              source: [
                { line: 10, code: 'a' },
                { line: 11, code: 'b' },
                { line: 12, code: 'c' },
                { line: 13, code: 'd' },
              ],
            },
          ],
        },
      ],
      stack: [{ function: 'outer' }],
      breadcrumbs: full.breadcrumbs,
      request: { url: 'http://shop.example/', queryString: 'a=1', headers: { Accept: '*/*' }, data: { b: 2 } },
      user: { id: '7', username: 'ann', ipAddress: '127.0.0.1', data: { plan: 'pro' } },
      userReport: { name: 'Ann', email: 'ann@example.com', comments: 'It broke' },
    });

    const sentry = await ask(
      reporter,
      `query ($path: ID!, $id: GitlabErrorTrackingDetailedErrorID!) { project(fullPath: $path) {
        sentryDetailedError(id: $id) { id }
        sentryErrors { externalUrl
          errors(searchTerm: "alpha", sort: "frequency", first: 1) { nodes { id sentryId shortId title type message culprit status count
            userCount firstSeen lastSeen externalUrl sentryProjectId sentryProjectName sentryProjectSlug frequency { time count } }
            pageInfo { hasNextPage } }
          detailedError(id: $id) { title externalBaseUrl integrated firstReleaseVersion firstReleaseShortVersion firstReleaseLastCommit
            lastReleaseVersion lastReleaseShortVersion lastReleaseLastCommit gitlabCommit gitlabCommitPath gitlabIssuePath tags { level logger } }
          errorStackTrace(id: $id) { issueId dateReceived stackTraceEntries { function fileName line col traceContext { line code } } } } } }`,
      { path, id },
    );
    expect(sentry.errors).toBeUndefined();
    const number = id.split('/').at(-1);
    const detailedId = `gid://gitlab/Gitlab::ErrorTracking::DetailedError/${number}`;
    expect(sentry.data.project).toMatchObject({
      sentryDetailedError: { id: detailedId },
      sentryErrors: {
        externalUrl: expect.stringContaining(path),
        errors: {
          nodes: [
            {
              id: detailedId,
              sentryId: number,
              title: 'Alpha: wrong',
              type: 'Alpha',
              message: 'x y',
              culprit: '/cart',
              status: 'UNRESOLVED',
              count: 2,
              userCount: 1,
            },
          ],
        },
        detailedError: {
          integrated: true,
          firstReleaseVersion: 'shop@1.0',
          firstReleaseShortVersion: '1.0',
          gitlabCommit: null,
          gitlabIssuePath: null,
          tags: { level: 'error', logger: 'app.db' },
        },
        errorStackTrace: {
          issueId: number,
          stackTraceEntries: [
            { function: 'main', fileName: 'app.py', line: '12', col: null, traceContext: expect.any(Array) },
          ],
        },
      },
    });
    const bad = await ask(
      reporter,
      `query ($path: ID!) { project(fullPath: $path) { sentryErrors { errors(sort: "size") { nodes { id } } } } }`,
      { path },
    );
    expect(bad.errors?.[0]?.message).toContain('last_seen, first_seen, frequency');
  });

  it('know the releases of the application, and which share of their sessions did not crash', async () => {
    const { path, project, reporter, thrown } = await setUp();
    const started = new Date().toISOString();
    await record([thrown('Alpha', { release: '1.0' })]);
    const counts = { project_id: project.id, sid: null, environment: null, started, errored: 8, abnormal: 1 };
    await app()
      .context()
      .transaction((tx) =>
        recordSessions(tx, [
          { ...counts, release: '1.1', total: 100, crashed: 5 },
          { ...counts, release: '1.1', total: 100, crashed: 1 },
        ]),
      );
    const { data } = await ask(
      reporter,
      `query ($path: ID!) { project(fullPath: $path) { errorTracking { releases { count
        nodes { version count firstSeen lastSeen sessions { total errored crashed abnormal crashFreeRate } } } } } }`,
      { path },
    );
    expect(data.project.errorTracking.releases).toMatchObject({
      count: 2,
      nodes: [
        {
          version: '1.1',
          count: 0,
          sessions: { total: 200, errored: 16, crashed: 6, abnormal: 2, crashFreeRate: 0.97 },
        },
        { version: '1.0', count: 1, sessions: null },
      ],
    });
  });
});

describe('actions on an error', () => {
  it('resolves it, and reopens it when it occurs again', async () => {
    const { path, developer, thrown } = await setUp();
    await record([thrown('Alpha')]);
    const id = await idOf(developer, path, 'Alpha');
    expect(await update(developer, { id, status: 'RESOLVED' })).toMatchObject({
      errors: [],
      error: { status: 'RESOLVED', resolvedBy: { username: developer.username }, resolvedRelease: null },
    });
    await record([thrown('Alpha', { timestamp: '2026-11-01T10:00:00.000Z' })]);
    expect(await typesIn(developer, path, { status: 'RESOLVED' })).toEqual(['Alpha']);
    await record([thrown('Alpha', { timestamp: new Date(Date.now() + 1_000).toISOString() })]);
    const { nodes } = await list(developer, path, { status: 'UNRESOLVED' });
    expect(nodes).toHaveLength(1);
    expect(await update(developer, { id, status: 'UNRESOLVED' })).toMatchObject({
      error: { resolvedAt: null, resolvedBy: null, regressedAt: expect.any(String) },
    });
  });

  it('changes many errors at once, all or none', async () => {
    const { path, developer, reporter, thrown } = await setUp();
    await record(['Alpha', 'Beta', 'Gamma'].map((type) => thrown(type, { release: '1.1' })));
    const ids = await Promise.all(['Beta', 'Alpha'].map((type) => idOf(developer, path, type)));
    const UPDATE_MANY = `mutation ($input: ErrorTrackingErrorsUpdateInput!) { errorTrackingErrorsUpdate(input: $input) {
      errors updated { id status ignoredUntil ignoredUntilCount resolvedRelease assignee { username } } } }`;
    const change = async (input: Record<string, unknown>, user = developer) => {
      const { data, errors } = await ask(user, UPDATE_MANY, { input: { projectPath: path, ids, ...input } });
      return errors ? { top: errors[0]?.message } : data.errorTrackingErrorsUpdate;
    };
    const assigned = { assigneeUsername: reporter.username };
    expect(await change({ status: 'IGNORED', ignoredEvents: 5, ...assigned })).toEqual({
      errors: [],
      updated: ids.map((id) => ({
        id,
        status: 'IGNORED',
        ignoredUntil: null,
        ignoredUntilCount: 6,
        resolvedRelease: null,
        assignee: { username: reporter.username },
      })),
    });
    const ignoredUntil = new Date(Date.now() + 60_000).toISOString();
    for (const input of [
      { status: 'IGNORED', ignoredUntil },
      { status: 'RESOLVED', release: '1.1' },
    ]) {
      const { release = null, ...shown } = { ignoredUntil: null, ...input };
      const expected = ids.map((id) => ({ id, ...shown, ignoredUntilCount: null, resolvedRelease: release }));
      expect((await change(input)).updated).toMatchObject(expected);
    }
    expect(await typesIn(developer, path, { status: 'UNRESOLVED' })).toEqual(['Gamma']);
    expect(await change({ ids: [], status: 'IGNORED' })).toMatchObject({ errors: ['Ids must have 1 to 100 items'] });
    const [foreign] = await (async () => {
      const other = await setUp();
      await record([other.thrown('Delta')]);
      return [await idOf(other.developer, other.path, 'Delta')];
    })();
    expect(await change({ ids: [...ids, foreign], status: 'UNRESOLVED' })).toMatchObject({
      top: expect.stringContaining('does not exist'),
    });
    expect(await change({ status: 'UNRESOLVED' }, reporter)).toMatchObject({
      top: expect.stringContaining('does not exist'),
    });
    expect(await typesIn(developer, path, { status: 'UNRESOLVED' })).toEqual(['Gamma']);
  });

  it('deletes it with its events, and takes its next event for a new error', async () => {
    const { path, project, developer, member, thrown } = await setUp();
    const maintainer = await member(40);
    const report = { name: 'Ann', email: '', comments: 'It broke', received_at: new Date().toISOString() };
    const first = thrown('Alpha');
    await record([first, thrown('Alpha'), thrown('Beta')]);
    await app()
      .context()
      .transaction((tx) => recordUserReports(tx, [{ ...report, project_id: project.id, event_id: first.event_id }]));
    const id = await idOf(developer, path, 'Alpha');
    const destroy = (user: TestUser) =>
      ask(user, `mutation ($id: ErrorTrackingErrorID!) { errorTrackingErrorDestroy(input: { id: $id }) { errors } }`, {
        id,
      });
    expect((await destroy(developer)).errors?.[0]?.message).toContain('does not exist');
    expect(await typesIn(developer, path, { sort: 'FIRST_SEEN_ASC' })).toHaveLength(2);
    expect((await destroy(maintainer)).data.errorTrackingErrorDestroy).toEqual({ errors: [] });
    expect(await typesIn(developer, path)).toEqual(['Beta']);
    await app().settle();
    const { pool } = app().hub.services;
    const left = await pool.query(
      `select (select count(*) from error_events where project_id = $1) as events,
         (select count(*) from error_user_reports where project_id = $1) as reports,
         (select count(*) from events where project_id = $1 and kind = 'error_tracking_error.deleted') as deleted`,
      [project.id],
    );
    expect(left.rows).toEqual([{ events: 1, reports: 0, deleted: 1 }]);
    expect((await destroy(maintainer)).errors?.[0]?.message).toContain('does not exist');
    await record([thrown('Alpha')]);
    expect(await idOf(developer, path, 'Alpha')).not.toBe(id);
  });

  it('takes releases into account', async () => {
    const { path, project, developer, thrown } = await setUp();
    const later = () => ({ timestamp: new Date(Date.now() + 1_000).toISOString() });
    await record([thrown('Alpha')]);
    const id = await idOf(developer, path, 'Alpha');
    expect(await update(developer, { id, status: 'RESOLVED_IN_NEXT_RELEASE' })).toMatchObject({
      errors: [expect.stringContaining('needs a release')],
    });
    await record([thrown('Alpha', { release: '1.0' })]);
    await record([thrown('Alpha', { release: '1.1' })]);
    expect(await update(developer, { id, status: 'RESOLVED', release: '9.9' })).toMatchObject({
      errors: [expect.stringContaining('is unknown')],
    });
    const statusAfter = async (release: string | null) => {
      await record([thrown('Alpha', { release, ...later() })]);
      const { rows } = await app().hub.services.pool.query('select status from errors where project_id = $1', [
        project.id,
      ]);
      return rows[0].status;
    };
    expect(await update(developer, { id, status: 'RESOLVED', release: '1.1' })).toMatchObject({
      error: { resolvedRelease: '1.1' },
    });
    expect(await statusAfter('1.0')).toBe('resolved');
    expect(await statusAfter('1.1')).toBe('unresolved');
    await update(developer, { id, status: 'RESOLVED_IN_NEXT_RELEASE' });
    expect(await statusAfter('1.0')).toBe('resolved_in_next_release');
    expect(await statusAfter('1.1')).toBe('resolved_in_next_release');
    expect(await statusAfter(null)).toBe('resolved_in_next_release');
    expect(await statusAfter('1.2')).toBe('unresolved');
    await update(developer, { id, status: 'RESOLVED', release: '1.2' });
    expect(await statusAfter(null)).toBe('resolved');
    await update(developer, { id, status: 'RESOLVED' });
    expect(await statusAfter(null)).toBe('unresolved');
  });

  it('ignores it until a time or a number of events', async () => {
    const { path, developer, thrown } = await setUp();
    await record([thrown('Alpha')]);
    const id = await idOf(developer, path, 'Alpha');
    const isIgnored = async () => (await typesIn(developer, path, { status: 'IGNORED' })).length === 1;
    expect(await update(developer, { id, status: 'IGNORED', ignoredEvents: 2 })).toMatchObject({
      error: { ignoredUntilCount: 3 },
    });
    await record([thrown('Alpha')]);
    expect(await isIgnored()).toBe(true);
    await record([thrown('Alpha')]);
    expect(await isIgnored()).toBe(false);
    const until = new Date(Date.now() + 60_000);
    expect(await update(developer, { id, status: 'IGNORED', ignoredUntil: until.toISOString() })).toMatchObject({
      error: { ignoredUntil: until.toISOString(), ignoredUntilCount: null },
    });
    await record([thrown('Alpha')]);
    expect(await isIgnored()).toBe(true);
    await record([thrown('Alpha', { received_at: new Date(until.getTime() + 1).toISOString() })]);
    expect(await isIgnored()).toBe(false);

    for (const [input, problem] of [
      [{ status: 'IGNORED', ignoredUntil: '2020-01-01T00:00:00Z' }, 'must be in the future'],
      [{ status: 'IGNORED', ignoredEvents: 0 }, 'must be at least 1'],
      [{ ignoredEvents: 1 }, 'needs the status ignored'],
      [{ ignoredUntil: until.toISOString() }, 'needs the status ignored'],
      [{ status: 'IGNORED', release: '1' }, 'needs the status resolved'],
    ] as const)
      expect(await update(developer, { id, ...input })).toMatchObject({
        errors: [expect.stringContaining(problem)],
        error: null,
      });
  });

  it('assigns it to those who can read it', async () => {
    const { path, developer, reporter, member, thrown } = await setUp();
    await record([thrown('Alpha')]);
    const id = await idOf(developer, path, 'Alpha');
    expect(await update(developer, { id, assigneeUsername: reporter.username })).toMatchObject({
      error: { assignee: { username: reporter.username }, status: 'UNRESOLVED' },
    });
    const assignee = `gid://gitlab/User/${reporter.id}`;
    expect(await typesIn(developer, path, { assignee })).toEqual(['Alpha']);
    const [guest, blocked] = [await member(10), await member(30)];
    await app().hub.services.db.updateTable('users').set({ state: 'blocked' }).where('id', '=', blocked.id).execute();
    const { username: stranger } = await app().make.user();
    for (const assigneeUsername of [guest.username, blocked.username, 'nobody-at-all', stranger])
      expect(await update(developer, { id, assigneeUsername })).toMatchObject({
        errors: ['Assignee cannot be assigned'],
      });
    expect(await update(developer, { id, assigneeUsername: null })).toMatchObject({ error: { assignee: null } });
  });

  it('links it to an issue, or opens one, and closes the issue with the error', async () => {
    const { path, developer, reporter, thrown } = await setUp();
    await record([thrown('Alpha', { release: 'r', transaction: '/close' })]);
    const id = await idOf(developer, path, 'Alpha');
    const CREATE = `mutation ($input: ErrorTrackingErrorCreateIssueInput!) { errorTrackingErrorCreateIssue(input: $input) {
      errors error { issue { iid } } issue { id iid title description confidential } } }`;
    const created = (await ask(developer, CREATE, { input: { id } })).data.errorTrackingErrorCreateIssue;
    expect(created).toMatchObject({ errors: [], issue: { title: 'Alpha: wrong', confidential: false } });
    expect(created.issue.description).toContain('in /close');
    expect(created.error.issue.iid).toBe(created.issue.iid);
    const { issue } = (
      await ask(developer, CREATE, { input: { id, title: 'Mine', description: 'x', confidential: true } })
    ).data.errorTrackingErrorCreateIssue;
    expect(issue).toMatchObject({ title: 'Mine', description: 'x', confidential: true });
    expect(await update(developer, { id, issueId: created.issue.id })).toMatchObject({
      error: { issue: { iid: created.issue.iid } },
    });
    expect(await update(developer, { id, status: 'RESOLVED' })).toMatchObject({
      error: { issue: { state: 'closed' } },
    });
    const { data } = await ask(
      reporter,
      `query ($path: ID!, $id: GitlabErrorTrackingDetailedErrorID!) { project(fullPath: $path) { sentryDetailedError(id: $id) { gitlabIssuePath } } }`,
      { path, id },
    );
    expect(data.project.sentryDetailedError.gitlabIssuePath).toBe(`/${path}/-/issues/${created.issue.iid}`);
    expect(await update(developer, { id, issueId: null })).toMatchObject({ error: { issue: null } });
    const other = await setUp();
    const foreign = await app().as(other.developer).post(`/projects/${other.project.id}/issues`, { title: 'x' });
    expect(await update(developer, { id, issueId: `gid://gitlab/Issue/${foreign.body.id}` })).toMatchObject({
      errors: ['Issue is not an issue of this project'],
    });
  });
});
