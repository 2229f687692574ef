import { sql } from 'kysely';
import { beforeAll, describe, expect, it } from 'vitest';
import type { MergeRequestFilter } from '#domains/merge-requests/lists/filter.ts';
import { listMergeRequests, listMergeRequestsBelow, listVisibleMergeRequests } from '#domains/merge-requests/lists.ts';
import { getProject } from '#domains/projects/queries.ts';
import type { List } from '#platform/db/list.ts';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import { insertDiff, insertMergeRequest } from './support.ts';

const app = useApp();
const db = () => app().hub.services.db;

type Scene = Awaited<ReturnType<typeof makeScene>>;
let scene: Scene;
/** Public, in the group of the scene. */
let open: { readonly id: number };

const FILTERS: readonly MergeRequestFilter[] = [
  {},
  { state: 'merged' },
  { labels: ['Bug'] },
  { labels: ['bug', 'late'] },
  { not: { labels: ['bug'] } },
  { milestone: ['v1'] },
  { milestone: 'None' },
  { search: 'even' },
  { search: 'ev' },
  { target_branches: ['stable'] },
  { created_after: '2025-01-10T00:00:00Z', created_before: '2025-01-25T00:00:00Z' },
  { merged_after: '2025-01-10T00:00:00Z' },
  { wip: true },
];
const ORDERS = [
  'created_at',
  'updated_at',
  'title',
  'merged_at',
  'closed_at',
  'label_priority',
  'milestone_due',
  'popularity',
  'priority',
] as const;

beforeAll(async () => {
  scene = await makeScene(app());
  const { project, group, people } = scene;
  open = await app().make.project({ namespace_id: group.id, visibility: 'public' }, people.owner);
  const projects = [project.id, open.id];
  const milestones = await db()
    .insertInto('milestones')
    .values(
      projects.flatMap((project_id, p) => [
        { project_id, iid: 1, title: 'v1', due_date: `2025-0${3 + p}-01` },
        { project_id, iid: 2, title: 'v2' },
      ]),
    )
    .returning('id')
    .execute();
  const labels = await db()
    .insertInto('labels')
    .values(
      projects.flatMap((project_id) => [
        { project_id, title: 'bug', color: '#ff0000', priority: 2 },
        { project_id, title: 'late', color: '#ff0000', priority: 1 },
      ]),
    )
    .returning('id')
    .execute();
  for (let i = 0; i < 24; i++) {
    const p = i % 2;
    const day = (shift: number) => `2025-01-${String(1 + ((i * 7 + shift) % 28)).padStart(2, '0')}T00:00:00Z`;
    const state = i % 5 === 0 ? 'merged' : i % 7 === 0 ? 'closed' : 'opened';
    const { id } = await insertMergeRequest(db(), {
      project_id: projects[p] ?? 0,
      title: i % 6 === 0 ? `Draft - ${i}` : `Change ${(i * 5) % 24}`,
      description: i % 4 === 0 ? 'Is even.' : null,
      state,
      target_branch: i % 8 === 0 ? 'stable' : 'main',
      author_id: i % 3 === 0 ? people.owner.id : people.reporter.id,
      milestone_id: i % 3 === 0 ? (milestones[2 * p + (i % 2)]?.id ?? null) : null,
      created_at: day(0),
      updated_at: day(3),
      merged_at: state === 'merged' ? day(5) : null,
      closed_at: state === 'closed' ? day(5) : null,
    });
    if (i % 4 === 1) {
      const each = labels.slice(2 * p, 2 * p + (i % 3 === 0 ? 2 : 1));
      await db()
        .insertInto('label_links')
        .values(each.map((label) => ({ label_id: label.id, merge_request_id: id })))
        .execute();
    }
    for (const person of [people.owner, people.reporter].slice(0, i % 3)) {
      await db()
        .insertInto('award_emoji')
        .values({ merge_request_id: id, user_id: person.id, name: 'thumbsup' })
        .execute();
    }
    if (i % 5 === 2) {
      await db()
        .insertInto('merge_request_assignees')
        .values({ merge_request_id: id, user_id: people.guest.id })
        .execute();
    }
    if (i % 6 === 2) {
      await db()
        .insertInto('merge_request_reviewers')
        .values({ merge_request_id: id, user_id: people.guest.id })
        .execute();
    }
  }
});

const titlesOf = (rows: readonly { readonly title: string }[]) => rows.map(({ title }) => title);

const PAGE = 9;

/** Reads the list in small pages, by offset and by cursor. Short pages are found in another way than long ones. */
const paged = async <Row>(list: () => List<Row>): Promise<{ byOffset: Row[]; byCursor: Row[]; backwards: Row[] }> => {
  const [byOffset, byCursor, backwards]: [Row[], Row[], Row[]] = [[], [], []];
  for (let offset = 0; ; offset += PAGE) {
    const rows = await list().rows({ limit: PAGE, offset });
    byOffset.push(...rows);
    if (rows.length < PAGE) break;
  }
  for (let last: Row | undefined; ; last = byCursor.at(-1)) {
    const rows = await list().rows({ limit: PAGE, after: last ? list().cursorOf(last) : null });
    byCursor.push(...rows);
    if (rows.length < PAGE) break;
  }
  for (let last: Row | undefined; ; last = backwards.at(-1)) {
    const rows = await list().rows({ limit: PAGE, before: last ? list().cursorOf(last) : null, backwards: true });
    backwards.push(...rows);
    if (rows.length < PAGE) break;
  }
  return { byOffset, byCursor, backwards: backwards.toReversed() };
};

describe('a list of merge requests', () => {
  it('has the same rows in the same order, however it is read', async () => {
    const { project, group, people } = scene;
    const ctx = app().context(people.reporter);
    const row = await getProject(ctx, { id: project.id });
    const lists: Readonly<Record<string, (filter: MergeRequestFilter) => List<{ readonly title: string }>>> = {
      project: (filter) => listMergeRequests(ctx, row, filter),
      group: (filter) => listVisibleMergeRequests(ctx, { ...filter, group_id: group.id }),
    };
    let counted = 0;
    for (const [name, list] of Object.entries(lists)) {
      for (const filter of FILTERS) {
        // All orders of the first filters, and one of each other.
        const orders = filter === FILTERS[0] || filter === FILTERS[1] ? ORDERS : [ORDERS[counted++ % ORDERS.length]];
        for (const order_by of orders) {
          const sort = counted++ % 2 === 0 ? 'asc' : 'desc';
          const of = () => list({ ...filter, order_by, sort });
          // The pages come first, because a list remembers in which way its first page was found.
          const { byOffset, byCursor, backwards } = await paged(of);
          const expected = titlesOf(await of().rows({ limit: 100 }));
          const each = [titlesOf(byOffset), titlesOf(byCursor), titlesOf(backwards)];
          expect({ name, filter, order_by, sort, each }).toEqual({
            name,
            filter,
            order_by,
            sort,
            each: [expected, expected, expected],
          });
          expect(await of().count(1_000)).toBe(expected.length);
          expect(await of().count(2)).toBe(Math.min(expected.length, 3));
        }
      }
    }
  });

  it('is sorted by priorities, due dates and votes, with the others last', async () => {
    const { owner, path } = scene;
    const list = async (query: string) => {
      const { status, body } = await owner.get(`${path}/merge_requests?per_page=100&${query}`);
      expect([query, status]).toEqual([query, 200]);
      return body;
    };
    const labelsOf = (rows: { labels: string[] }[]) => rows.map(({ labels }) => labels.join());
    // In the private project every labelled merge request would have an even number.
    const { body: withLabels } = await owner.get(
      `/projects/${open.id}/merge_requests?order_by=label_priority&sort=asc`,
    );
    expect(labelsOf(withLabels).slice(0, 3)).toEqual(['bug,late', 'bug,late', 'bug']);
    expect(labelsOf(withLabels).at(-1)).toBe('');
    const due = (await list('order_by=milestone_due&sort=asc')).map(
      (row: { milestone: { title: string } | null }) => row.milestone?.title,
    );
    expect([due[0], due.at(-1)]).toEqual(['v1', undefined]);
    const downwards = await list('order_by=milestone_due&sort=desc');
    expect([downwards[0].milestone.title, downwards.at(-1).milestone]).toEqual(['v1', null]);
    const votes = (await list('order_by=popularity')).map((row: { upvotes: number }) => row.upvotes);
    expect(votes).toEqual([...votes].sort((a, b) => b - a));
    expect(votes[0]).toBe(2);
    expect((await list('order_by=priority&sort=asc'))[0].milestone.title).toBe('v1');
    for (const sort of ['asc', 'desc']) {
      const merged = (await list(`order_by=merged_at&sort=${sort}`)).map(
        (row: { merged_at: string | null }) => row.merged_at,
      );
      const times = merged.filter((time: string | null) => time !== null);
      expect(merged.slice(0, times.length)).toEqual(sort === 'asc' ? times.toSorted() : times.toSorted().toReversed());
    }
  });

  it('covers merge requests by the caller, assigned to them or for them to review, in both spellings', async () => {
    const { people, guest } = scene;
    const as = app().as(people.reporter);
    const count = async (user: typeof as, scope: string) =>
      (await user.get(`/merge_requests?scope=${scope}`)).headers.get('x-total');
    expect(await count(as, 'created-by-me')).toBe(await count(as, 'created_by_me'));
    expect(await count(as, 'created_by_me')).toBe('16');
    // A guest of the private project sees those of the public one.
    for (const [scope, table] of [
      ['assigned', 'merge_request_assignees'],
      ['reviews', 'merge_request_reviewers'],
    ] as const) {
      const { rows } = await sql<{ count: number }>`select count(*) from ${sql.table(table)} held
        join merge_requests mr on mr.id = held.merge_request_id where mr.project_id = ${open.id}`.execute(db());
      const name = scope === 'assigned' ? 'assigned_to_me' : 'reviews_for_me';
      expect([name, await count(guest, name)]).toEqual([name, String(rows[0]?.count)]);
      expect(await count(guest, name.replaceAll('_', '-'))).toBe(String(rows[0]?.count));
    }
  });

  it('shows anonymous callers all public ones, and nothing of their own', async () => {
    const anonymous = app().anonymous;
    const { status, body, headers } = await anonymous.get('/merge_requests?scope=all&per_page=5');
    expect([status, headers.get('x-total')]).toEqual([200, '12']);
    expect(body.every((row: { project_id: number }) => row.project_id === open.id)).toBe(true);
    for (const query of ['', '?scope=created_by_me', '?scope=reviews_for_me']) {
      expect([query, (await anonymous.get(`/merge_requests${query}`)).status]).toEqual([query, 401]);
    }
    expect((await scene.stranger.get('/merge_requests?scope=all')).headers.get('x-total')).toBe('12');
  });

  it('finds nothing by an unknown reviewer, negated or not, but drafts by every mark', async () => {
    const { owner, path } = scene;
    const total = async (query: string) => (await owner.get(`${path}/merge_requests?${query}`)).headers.get('x-total');
    expect(await total('reviewer_username=nobody-at-all')).toBe('0');
    expect(await total('not[reviewer_username]=nobody-at-all')).toBe('0');
    expect(await total('not[author_username]=nobody-at-all')).toBe('12');
    expect([await total('wip=yes'), await total('wip=no')]).toEqual(['4', '8']);
    expect(await total('draft=true')).toBe('0');
  });

  it('rechecks merge statuses for Developers who ask for it', async () => {
    const { people, path, maintainer, reporter } = scene;
    const stale = () =>
      db()
        .selectFrom('merge_requests')
        .select('id')
        .where('project_id', '=', scene.project.id)
        .where('state', '=', 'opened')
        .where('merge_status', '=', 'unchecked')
        .execute();
    const before = await stale();
    expect(before.length).toBeGreaterThan(0);
    for (const as of [reporter, app().as(people.guest), app().anonymous]) {
      await as.get(`${path}/merge_requests?with_merge_status_recheck=true&per_page=100`);
    }
    await maintainer.get(`${path}/merge_requests?per_page=100`);
    await app().settle();
    expect(await stale()).toEqual(before);
    await maintainer.get(`${path}/merge_requests?with_merge_status_recheck=true&per_page=100`);
    await app().settle();
    // Without a repository there is nothing to merge.
    expect(await stale()).toEqual([]);
  });

  it('is counted again after each commit, over GraphQL too', async () => {
    const { project, owner } = scene;
    const count = async () => {
      const { data } = await owner.graphql(
        // A full page, so that the count is read separately.
        'query ($path: ID!) { project(fullPath: $path) { mergeRequests(state: opened, first: 1) { count nodes { iid } } } }',
        { path: project.path_with_namespace },
      );
      return data.project.mergeRequests.count;
    };
    const before = await count();
    for (let made = 1; made <= 2; made++) {
      await insertMergeRequest(db(), { project_id: project.id, title: 'Counted anew' });
      expect([await count(), await count()]).toEqual([before + made, before + made]);
    }
  });

  it('below one parent is the same as below many', async () => {
    const { people, group, project } = scene;
    const ctx = app().context(people.guest);
    const admin = app().context();
    const parents = {
      project: [project.id, open.id],
      group: [group.id, 1_000_000],
      subgroups: [group.id, 1_000_000],
      author: [people.owner.id, people.reporter.id],
      assignee: [people.guest.id, people.owner.id],
      reviewer: [people.guest.id, people.owner.id],
    } as const;
    for (const kind of ['project', 'group', 'subgroups', 'author', 'assignee', 'reviewer'] as const) {
      for (const filter of [{ state: 'opened' }, { state: 'opened', order_by: 'popularity', sort: 'asc' }] as const) {
        const list = () => listMergeRequestsBelow(kind === 'project' ? admin : ctx, kind, filter);
        const many = await list().rows(parents[kind], { limit: 50 });
        const counts = await list().counts(parents[kind], 100);
        for (const parent of parents[kind]) {
          const one = list();
          const rows = (await one.rows([parent], { limit: 50 })).get(parent) ?? [];
          expect([kind, titlesOf(rows)]).toEqual([kind, titlesOf(many.get(parent) ?? [])]);
          expect((await one.counts([parent], 100)).get(parent)).toBe(counts.get(parent));
        }
      }
    }
  });

  it('is the same behind a crowd that does not match', async () => {
    const { group, people } = scene;
    const reporter = app().context(people.reporter);
    const lists: Readonly<Record<string, (filter: MergeRequestFilter) => List<{ readonly title: string }>>> = {
      group: (filter) => listVisibleMergeRequests(reporter, { ...filter, group_id: group.id }),
      everywhere: (filter) => listVisibleMergeRequests(app().context(), filter),
    };
    const linked = await linkEverything();
    const filters = [...FILTERS.filter((filter) => !isOfCrowd(filter)), ...linked];
    const read = async (rowsOf: (list: () => List<{ readonly title: string }>) => Promise<string[]>) => {
      const found: Record<string, unknown> = {};
      for (const [l, [name, list]] of Object.entries(lists).entries()) {
        for (const [n, filter] of filters.entries()) {
          // Each filter meets each order, in one of both lists.
          const orders = linked.includes(filter)
            ? (['created_at'] as const)
            : ORDERS.filter((_, o) => (n + o + l) % 2 === 0);
          for (const order_by of orders) {
            const isAscending = ((n >> 1) + ORDERS.indexOf(order_by)) % 2 === 0;
            const of = () => list({ ...filter, order_by, sort: isAscending ? 'asc' : 'desc' });
            found[`${name} ${JSON.stringify(filter)} ${order_by}`] = [await rowsOf(of), await of().count(1_000)];
          }
        }
      }
      return found;
    };
    // These lists are short, so one page holds them.
    const before = await read(async (list) => titlesOf(await list().rows({ limit: 100 })));
    const crowd = await app().make.project({ namespace_id: group.id, visibility: 'public' }, people.owner);
    await sql`
      insert into merge_requests (project_id, source_project_id, iid, title, state, source_branch, target_branch, author_id,
          merge_status, created_at, updated_at, merged_at)
        select ${crowd.id}, ${crowd.id}, i, case when i % 2 = 0 then 'aaa ' else 'zzz ' end || i, 'closed', 'topic-' || i, 'main',
          ${people.stranger.id}, 'can_be_merged', at, at, null
        from (select i, timestamptz '2020-01-01Z' + i % 2 * interval '10 years' + i * interval '1 minute' as at
          from generate_series(1, 4200) i) given`.execute(db());
    const after = await read(async (list) => {
      const { byOffset, byCursor, backwards } = await paged(list);
      expect(titlesOf(byCursor)).toEqual(titlesOf(byOffset));
      expect(titlesOf(backwards)).toEqual(titlesOf(byOffset));
      return titlesOf(byOffset);
    });
    expect(after).toEqual(before);

    const [deployed] = await db()
      .selectFrom('merge_requests')
      .select(['id', 'title'])
      .where('project_id', '=', crowd.id)
      .where('iid', '=', 2_100)
      .execute();
    await deploy(crowd.id, deployed?.id ?? 0);
    const row = await getProject(reporter, { id: crowd.id });
    for (const [deployed_after, titles] of [
      [LONG_AGO, [deployed?.title]],
      ['2099-01-01T00:00:00Z', []],
    ] as const) {
      const rows = await listMergeRequests(reporter, row, { deployed_after, order_by: 'created_at' }).rows({
        limit: 5,
      });
      expect(titlesOf(rows)).toEqual(titles);
    }
  });
});

const LONG_AGO = '2020-01-01T00:00:00Z';

/** Links one merge request to a commit, a merge and a reaction. Returns filters that find it by each link. */
const linkEverything = async (): Promise<readonly MergeRequestFilter[]> => {
  const { people } = scene;
  const { id, milestone_id } = await db()
    .selectFrom('merge_requests')
    .select(['id', 'milestone_id'])
    .where('project_id', '=', open.id)
    .where('milestone_id', 'is not', null)
    .orderBy('id')
    .limit(1)
    .executeTakeFirstOrThrow();
  const commit_sha = 'e'.repeat(40);
  await insertDiff(db(), id, { shas: [commit_sha] });
  const { id: merger } = people.maintainer;
  await db().updateTable('merge_requests').set({ merge_user_id: merger }).where('id', '=', id).execute();
  return [
    { commit_sha },
    { my_reaction_emoji: 'thumbsup' },
    { milestone_id },
    { merge_user: { id: merger } },
    { source_project_id: open.id },
  ];
};

/** Stores a successful deployment that brought the merge request to an environment. */
const deploy = async (project_id: number, merge_request_id: number): Promise<void> => {
  const environment = await db()
    .insertInto('environments')
    .values({ project_id, name: 'live', slug: 'live', tier: 'production' })
    .returning('id')
    .executeTakeFirstOrThrow();
  const deployment = await db()
    .insertInto('deployments')
    .values({
      project_id,
      environment_id: environment.id,
      iid: 1,
      ref: 'main',
      tag: false,
      sha: 'a'.repeat(40),
      status: 'success',
      finished_at: '2026-01-01T00:00:00Z',
    })
    .returning('id')
    .executeTakeFirstOrThrow();
  await db()
    .insertInto('deployment_merge_requests')
    .values({ deployment_id: deployment.id, merge_request_id })
    .execute();
};

/** Returns true if the filter also selects closed merge requests without anything. */
const isOfCrowd = ({
  state,
  labels,
  milestone,
  search,
  target_branches,
  created_after,
  merged_after,
  wip,
}: MergeRequestFilter) =>
  !(state || labels || Array.isArray(milestone) || search || target_branches || created_after || merged_after || wip);
