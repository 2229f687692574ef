import { join } from 'node:path';
import { runOnce } from 'graphile-worker';
import { sql } from 'kysely';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { usersByProjectLevel } from '#domains/access/queries.ts';
import { classOf, readingsOf } from '#domains/events/visibility.ts';
import { claimDue } from '#domains/hooks/delivery/claim.ts';
import { anonymous } from '#platform/context.ts';
import { readEvents } from '#platform/event-log/read.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { until } from '../support/until.ts';

// The statements that the hub sends most often, with their plans, in files that are reviewed. A changed statement or
// plan fails here until `npx vitest run test/system/hot-statements.soak.test.ts -u` has updated its file. No plan may read a
// large table as a whole.

const queries = vi.spyOn(pg.Client.prototype, 'query');
afterAll(() => queries.mockRestore());
// Without workers, nothing changes the filled rows.
const app = useApp({ env: { MILLRACE_ROLE: 'web' } });

const GROUPS = 1_000;
const USERS = 1_000;
const PROJECTS = 6_000;

/** All ids of filled rows start here, so that they cannot meet those of the hub's own rows. */
const BASE = 1_000_000;

const LARGE = [
  'events',
  'issues',
  'label_links',
  'members',
  'merge_requests',
  'namespace_access',
  'namespaces',
  'personal_access_tokens',
  'project_shares',
  'projects',
  'users',
  'webhook_deliveries',
  'webhook_payloads',
  'webhook_queue',
  'webhooks',
] as const;

// Events get positions below those of the hub, so that no follower reads them. Deliveries are due in a century.
const FILL = [
  `insert into users (id, username, name, email, confirmed_at)
    select ${BASE} + u, 'filled' || u, 'Filled ' || u, 'filled' || u || '@example.com', timestamptz '2025-01-01Z'
    from generate_series(1, ${USERS}) u`,
  // Ten groups make a tree of two levels.
  `insert into namespaces (id, kind, parent_id, traversal_ids, name, path, full_path, full_name, visibility_level)
    select ${BASE} + g, 'group', nullif(top, g) + ${BASE}, case when g = top then array[${BASE} + g] else array[${BASE} + top, ${BASE} + g] end,
      'Group ' || g, 'filled-group' || g, case when g = top then '' else 'filled-group' || top || '/' end || 'filled-group' || g, 'Group ' || g,
      (array[0, 10, 20])[1 + top / 10 % 3]
    from generate_series(1, ${GROUPS}) g cross join lateral (select g - (g - 1) % 10 as top) tops`,
  `insert into projects (id, namespace_id, name, path, full_path, disk_path, visibility_level, last_activity_at, created_at, updated_at)
    select ${BASE} + p, n.id, 'Project ' || p, 'filled' || p, n.full_path || '/filled' || p, 'filled/' || p,
      least(n.visibility_level, (array[0, 10, 20])[1 + p % 3]),
      at, timestamptz '2025-01-01Z' + p * interval '1 minute', at
    from generate_series(1, ${PROJECTS}) p join namespaces n on n.id = ${BASE} + 1 + p * 7 % ${GROUPS}
      cross join lateral (select timestamptz '2026-01-01Z' - p * 7919 % 1000003 * interval '1 second' as at) moved
    order by p`,
  `insert into project_statistics (project_id) select id from projects where id > ${BASE} order by id`,
  `insert into members (user_id, namespace_id, access_level)
    select ${BASE} + 1 + m % ${USERS}, ${BASE} + 1 + m * 13 % ${GROUPS}, (array[10, 20, 30, 40, 50])[1 + m % 5] from generate_series(1, 3000) m
    on conflict do nothing`,
  `insert into members (user_id, project_id, access_level)
    select ${BASE} + 1 + m % ${USERS}, ${BASE} + 1 + m * 17 % ${PROJECTS}, (array[10, 20, 30, 40])[1 + m % 4] from generate_series(1, 3000) m
    on conflict do nothing`,
  `insert into project_shares (project_id, shared_with_id, access_level)
    select ${BASE} + 1 + s * 11 % ${PROJECTS}, ${BASE} + 1 + s * 19 % ${GROUPS}, 20 from generate_series(1, 1500) s on conflict do nothing`,
  `select refresh_namespace_access(array(select id from namespaces where id > ${BASE} and parent_id is null), null)`,
  `insert into personal_access_tokens (user_id, name, scopes, digest)
    select ${BASE} + 1 + t % ${USERS}, 'filled', '{api}', sha256(t::text::bytea) from generate_series(1, 3000) t`,
  `insert into issues (project_id, iid, title, author_id, created_at, updated_at)
    select ${BASE} + 1 + i % 600, 1 + i / 600, 'Issue ' || i, ${BASE} + 1 + i % ${USERS}, at, at
    from generate_series(1, 12000) i cross join lateral (select timestamptz '2025-01-01Z' + i * interval '1 minute' as at) moved`,
  `insert into merge_requests (project_id, iid, title, author_id, source_branch, target_branch, created_at, updated_at)
    select ${BASE} + 1 + i % 600, 1 + i / 600, 'Change ' || i, ${BASE} + 1 + i % ${USERS}, 'branch' || i, 'main', at, at
    from generate_series(1, 12000) i cross join lateral (select timestamptz '2025-01-01Z' + i * interval '1 minute' as at) moved`,
  // Postgres cannot know which of the two is rare.
  `insert into labels (project_id, title, color, priority)
    select project_id, title, '#ff0000', priority from (values ('rare', 1), ('common', null)) l (title, priority)
      cross join (select min(id) as project_id from projects where id > ${BASE} and visibility_level = 20) p`,
  `insert into label_links (label_id, merge_request_id)
    select l.id, mr.id from labels l join merge_requests mr on mr.iid = 1 and mr.project_id = l.project_id or l.title = 'common'
    order by l.title, mr.id`,
  `insert into events (position, kind, subject_type, subject_id, project_id, namespace_ids, visibility_level, payload)
    select -e, 'issue.updated', 'Issue', e, p.id, n.traversal_ids, p.visibility_level, '{}'
    from generate_series(1, 10000) e join projects p on p.id = ${BASE} + 1 + e % ${PROJECTS} join namespaces n on n.id = p.namespace_id
    order by e`,
  `insert into webhooks (id, project_id, url)
    select ${BASE} + h, ${BASE} + h, 'https://receiver.example/' from generate_series(1, 500) h`,
  `insert into webhook_payloads (id, chain_id, kind, trigger, body)
    select ${BASE} + p, 'filled', 'issue.updated', 'issues_events', '{}' from generate_series(1, 5000) p`,
  // Random ids would change the size of the index, and with it the plans.
  `with filled as (
      insert into webhook_deliveries (id, webhook_id, payload_id)
      select md5(d::text)::uuid, ${BASE} + 1 + d % 500, ${BASE} + d from generate_series(1, 5000) d
      returning *)
    insert into webhook_queue (delivery_id, webhook_id, payload_id, created_at, next_attempt_at)
    select id, webhook_id, payload_id, created_at, timestamptz '2126-01-01Z' + payload_id * interval '1 second' from filled`,
  `select graphile_worker.add_job('filled', run_at => timestamptz '2126-01-01Z' + j * interval '1 second') from generate_series(1, 3000) j`,
];

let member: TestUser;
/** A public project with issues and merge requests. */
let project: { readonly id: number; readonly full_path: string };

beforeAll(async () => {
  const { pool } = app().hub.services;
  const client = await pool.connect();
  try {
    // VACUUM marks pages as visible to everyone only after the commits have been flushed.
    await client.query('set synchronous_commit = on');
    const { rows: tables } = await client.query<{ name: string }>(
      `select coalesce(i.inhrelid, t.oid)::regclass::text as name
       from unnest($1::regclass[]) t (oid) left join pg_inherits i on i.inhparent = t.oid`,
      [LARGE],
    );
    for (const { name } of tables) await client.query(`alter table ${name} set (autovacuum_enabled = off)`);
    for (const statement of FILL) await client.query(statement);
    // Reads every row, so that the statistics are the same each time.
    await client.query('set default_statistics_target = 1000');
    await until('the pages of the filled tables are visible to everyone', async () => {
      // A transaction of the hub that runs meanwhile keeps pages from being marked. Its own rows fill less than a page.
      await client.query(`vacuum (analyze) ${LARGE.join(', ')}, graphile_worker._private_jobs`);
      const { rows } = await client.query(
        'select from pg_class where oid = any ($1::regclass[]) and relallvisible < relpages - 1',
        [tables.map(({ name }) => name)],
      );
      return rows.length === 0;
    });
    await client.query('reset default_statistics_target');
    await client.query('reset synchronous_commit');
    const { rows } = await client.query<TestUser>('select id, username from users where username = $1', ['filled7']);
    const { rows: open } = await client.query<typeof project>(
      'select id, full_path from projects where id > $1 and visibility_level = 20 order by id limit 1',
      [BASE],
    );
    if (!rows[0] || !open[0]) throw new Error('nothing was filled');
    [member, project] = [rows[0], open[0]];
  } finally {
    client.release();
  }
  await app().tokenOf(member);
});

const textOf = (query: unknown): string | null => {
  if (typeof query === 'string') return query;
  const text: unknown = typeof query === 'object' && query !== null ? Reflect.get(query, 'text') : null;
  return typeof text === 'string' ? text : null;
};

/** Runs the action and returns the first statement sent since that matches. */
const sentBy = async (pattern: RegExp, action: () => Promise<unknown>): Promise<string> => {
  queries.mockClear();
  await action();
  let found: string | undefined;
  await until(`a statement matches ${String(pattern)}`, () => {
    const calls: readonly (readonly unknown[])[] = queries.mock.calls;
    found = calls.flatMap(([query]) => textOf(query) ?? []).find((text) => pattern.test(text));
    return found !== undefined;
  });
  return found ?? '';
};

interface Node {
  readonly 'Node Type': string;
  readonly 'Relation Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Subplan Name'?: string;
  readonly 'Scan Direction'?: string;
  readonly Plans?: readonly Node[];
}

const lineOf = (node: Node): string =>
  [
    node['Subplan Name'] ? `${node['Subplan Name']}:` : '',
    node['Node Type'],
    node['Scan Direction'] === 'Backward' ? 'Backward' : '',
    node['Index Name'] ? `by ${node['Index Name']}` : '',
    node['Relation Name'] ? `on ${node['Relation Name']}` : '',
  ]
    .filter((part) => part !== '')
    .join(' ')
    .replaceAll(/_\d{8}\b|_\d{8}(?=_)/g, '_day');

/** Partitions with equal plans are shown once, because their number depends on the day. */
const tree = (node: Node, depth = 0): string[] => {
  const below = (node.Plans ?? []).map((plan) => tree(plan, depth + 1).join('\n'));
  const isOfPartitions = node['Node Type'] === 'Append' || node['Node Type'] === 'Merge Append';
  return [`${'  '.repeat(depth)}${lineOf(node)}`, ...(isOfPartitions ? new Set(below) : below)].flatMap((text) =>
    text.split('\n'),
  );
};

const nodesOf = (node: Node): Node[] => [node, ...(node.Plans ?? []).flatMap(nodesOf)];

/**
 * Compares statement and plan with the file, and returns the large tables that the plan reads as a whole. The hub's
 * sessions use generic plans (platform/db/pool.ts).
 */
const review = async (name: string, text: string): Promise<string[]> => {
  const { rows } = await app().hub.services.pool.query<{ 'QUERY PLAN': readonly { readonly Plan: Node }[] }>(
    `explain (generic_plan, format json, costs off) ${text}`,
  );
  const plan = rows[0]?.['QUERY PLAN'][0]?.Plan;
  if (!plan) throw new Error('there is no plan');
  const statement = text
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
    .join('\n');
  const shown = tree(plan).map((line) => `-- ${line}`);
  await expect(`${statement};\n\n${shown.join('\n')}\n`).toMatchFileSnapshot(
    join(import.meta.dirname, 'hot-statements', `${name}.sql`),
  );
  return nodesOf(plan)
    .filter((node) => node['Node Type'] === 'Seq Scan' && LARGE.some((table) => table === node['Relation Name']))
    .map((node) => node['Relation Name'] ?? '');
};

const get = (path: string | (() => string)) => async () => {
  const { status } = await app()
    .as(member)
    .get(typeof path === 'string' ? path : path());
  expect(status).toBe(200);
};
const context = () => app().context(member);

const STATEMENTS: readonly (readonly [name: string, pattern: RegExp, action: () => Promise<unknown>])[] = [
  [
    'token',
    /from personal_access_tokens t where t\.digest = \$1/,
    async () => {
      const token = await app().tokenOf(member, ['read_api']);
      await fetch(`${app().url}/api/v4/version`, { headers: { 'private-token': token } });
    },
  ],
  ['project-by-path', /lower\(projects\.full_path\)/, get(() => `/projects/${encodeURIComponent(project.full_path)}`)],
  ['projects-page', /from .*projects.*limit/s, get('/projects?per_page=20')],
  [
    'projects-keyset',
    /projects\.id < .*limit/s,
    get(`/projects?pagination=keyset&order_by=id&id_before=${BASE + 3000}`),
  ],
  ['projects-of-member', /from .*projects.*limit/s, get('/projects?membership=true&per_page=20')],
  ['groups', /from .*namespaces.*limit/s, get('/groups?per_page=20')],
  ['issues', /from "?issues"?.*limit/s, get(() => `/projects/${project.id}/issues`)],
  ['merge-requests', /from "?merge_requests"?.*limit/s, get(() => `/projects/${project.id}/merge_requests`)],
  ['merge-requests-of-author', /with drawn as .*merge_requests/s, get('/merge_requests')],
  ['merge-requests-everywhere', /from "?merge_requests"?.*limit/s, get('/merge_requests?scope=all&state=opened')],
  [
    'merge-requests-open',
    /from "?merge_requests"?.*limit/s,
    async () => {
      const { data } = await app()
        .as(member)
        .graphql(
          'query ($path: ID!) { project(fullPath: $path) { mergeRequests(state: opened) { count nodes { iid } } } }',
          {
            path: project.full_path,
          },
        );
      expect(data.project.mergeRequests).toMatchObject({ count: 20 });
    },
  ],
  ['merge-requests-with-label', /with drawn as .*label_links/s, get('/merge_requests?scope=all&labels=rare')],
  [
    'merge-requests-by-label-priority',
    /with drawn as .*label_links/s,
    get(() => `/projects/${project.id}/merge_requests?order_by=label_priority`),
  ],
  [
    'roles',
    /unnest\(.*as asked/s,
    () => usersByProjectLevel(context(), [{ projectId: project.id, userIds: [member.id, member.id + 1] }], 30),
  ],
  [
    'events-of-project',
    /from events where position > /,
    () =>
      readEvents(
        app().hub.services.db,
        { after: -5000, until: -1, limit: 200 },
        { kinds: null, project_id: project.id },
      ),
  ],
  [
    'events',
    /from events where position > /,
    () => readEvents(app().hub.services.db, { after: -5000, until: -1, limit: 200 }),
  ],
  [
    'readers-of-events',
    /jsonb_to_recordset/,
    async () => {
      const { rows } = await sql<{ id: number; namespace_ids: number[] }>`
        select p.id, n.traversal_ids as namespace_ids from projects p join namespaces n on n.id = p.namespace_id
        where p.id = ${project.id}`.execute(app().hub.services.db);
      const [place] = rows;
      if (!place) throw new Error('the project is missing');
      const moment = {
        project_id: place.id,
        namespace_ids: place.namespace_ids,
        visibility_level: null,
        min_access_level: null,
        user_ids: [],
        about_people: false,
        ability: 'read_issue',
        least: null,
        issue_id: null,
        other_project_id: null,
      } as const;
      await readingsOf(context(), [classOf({ ...anonymous, userId: member.id })], [moment]);
    },
  ],
  [
    'claim-of-deliveries',
    /with recursive busy/,
    () => claimDue(app().hub.services.db, app().hub.services.processId, [], 4, 100),
  ],
  [
    'job',
    /_private_jobs.*limit 1\s+for update/s,
    () => runOnce({ pgPool: app().hub.services.pool, taskList: { filled: () => {} }, noHandleSignals: true }),
  ],
];

// Another Postgres may be of another version, and plan otherwise.
describe.skipIf(process.env.TEST_DATABASE_URL !== undefined)('the plan of a hot statement', () => {
  it.each(STATEMENTS)('is the reviewed one: %s', async (name, pattern, action) => {
    expect(await review(name, await sentBy(pattern, action))).toEqual([]);
  });
});
