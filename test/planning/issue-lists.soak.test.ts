import { sql } from 'kysely';
import { beforeAll, describe, expect, it } from 'vitest';
import type { IssueFilter } from '#domains/issues/lists/filter.ts';
import { type IssueScope, listIssues, listIssuesBelow } from '#domains/issues/lists.ts';
import { ISSUE_ORDERS, type IssueRow } from '#domains/issues/model.ts';
import { getProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import type { List } from '#platform/db/list.ts';
import { useApp } from '../support/app.ts';
import { makeScene } from './scene.ts';

// A list is found in one of several ways (decision 41). The crowd, older and newer than all other issues, makes a walk
// stop before it finds them. What each list should have is computed here from the rows.

const app = useApp();
const db = () => app().hub.services.db;

const CROWD = 2_100;
/** As many rows of a list are compared, from each end. */
const COMPARED = 16;
const PAGE = 8;
/** `LISTS=all` reads each list for each person in each place, which takes three times as long. */
const ALL = process.env.LISTS === 'all';

/**
 * Selects a third of all combinations, so that each value of a dimension still meets each value of every other one. All
 * dimensions but one must have at least three values.
 */
const isChosen = (...turns: readonly number[]): boolean => ALL || turns.reduce((sum, turn) => sum + turn, 0) % 3 === 0;

let scene: Awaited<ReturnType<typeof makeScene>>;
let open: { readonly id: number };
let crowd: { readonly id: number };

interface Stored extends IssueRow {
  readonly labels: readonly string[];
  readonly milestone: string | null;
  readonly assignees: readonly number[];
  readonly reacted: readonly number[];
}
let stored: readonly Stored[];

beforeAll(async () => {
  scene = await makeScene(app());
  const { project, group, people } = scene;
  open = await app().make.project({ namespace_id: group.id, visibility: 'public' }, people.owner);
  crowd = await app().make.project({ namespace_id: group.id, visibility: 'public' }, people.owner);
  await sql`
    insert into issues (project_id, iid, title, state, author_id, weight, due_date, created_at, updated_at)
      select ${crowd.id}, i, case when i % 2 = 0 then 'aaa ' else 'zzz ' end || i, 'closed', ${people.stranger.id},
        case when i % 3 = 0 then i % 2 * 1000 end, case when i % 3 = 0 then date '2020-01-01' + i % 2 * 10000 end, at, at
      from (select i, timestamptz '2020-01-01Z' + i % 2 * interval '10 years' + i * interval '1 minute' as at
        from generate_series(1, ${2 * CROWD}::int) i) given`.execute(db());
  const ids = [project.id, open.id];
  const statements = [
    sql`insert into labels (project_id, title, color)
      select p, title, '#ff0000' from unnest(${ids}::bigint[]) p, unnest('{bug,late}'::text[]) title`,
    sql`insert into milestones (project_id, iid, title) select p, 1, 'v1' from unnest(${ids}::bigint[]) p`,
    sql`insert into issues (project_id, iid, title, description, state, author_id, milestone_id, confidential, weight,
        due_date, relative_position, created_at, updated_at)
      select m.project_id, i, 'Issue ' || i * 5 % 24, case when i % 4 = 0 then 'Is even.' end,
        case when i % 5 = 0 then 'closed' else 'opened' end,
        case when i % 3 = 0 then ${people.owner.id}::bigint when i % 7 = 0 then ${people.guest.id} else ${people.reporter.id} end,
        case when i % 3 = 0 then m.id end, i % 4 = 1, case when i % 9 = 1 then 2147483647 when i % 3 = 1 then i % 4 end,
        case when i % 4 = 2 then date '2025-01-01' + i % 5 end, case when i % 5 = 1 then i end, at,
        at + i * 7 % 5 * interval '1 day'
      from generate_series(1, 24) i join milestones m on m.project_id = (${ids}::bigint[])[1 + i / 2 % 2]
        cross join lateral (select timestamptz '2025-01-01Z' + i / 2 * interval '1 day' as at) at`,
    sql`insert into label_links (label_id, issue_id)
      select l.id, i.id from issues i join labels l on l.project_id = i.project_id
      where case l.title when 'bug' then i.iid % 4 < 2 else i.iid % 6 = 1 end`,
    sql`insert into issue_assignees (issue_id, user_id) select i.id, ${people.guest.id} from issues i
      where i.project_id <> ${crowd.id} and i.iid % 6 < 2`,
    sql`insert into award_emoji (issue_id, user_id, name)
      select i.id, u, 'tada' from issues i, unnest(${[people.guest.id, people.owner.id]}::bigint[]) u
      where i.project_id <> ${crowd.id} and i.iid % 8 = 1`,
    // Only reading the whole project finds these.
    sql`update issues set title = 'Is even.' where project_id = ${crowd.id} and iid % 1000 = 500`,
    sql`analyze issues`,
  ];
  for (const statement of statements) await statement.execute(db());
  const { rows } = await sql<Stored>`
    select i.*, array(select l.title from label_links k join labels l on l.id = k.label_id where k.issue_id = i.id) as labels,
      (select m.title from milestones m where m.id = i.milestone_id) as milestone,
      array(select a.user_id from issue_assignees a where a.issue_id = i.id) as assignees,
      array(select e.user_id from award_emoji e where e.issue_id = i.id) as reacted
    from issues i order by i.id`.execute(db());
  stored = rows;
});

/** The second argument is the id of the caller, or 0. */
const FILTERS: readonly (readonly [IssueFilter, (issue: Stored, me: number) => boolean])[] = [
  [{}, () => true],
  [{ state: 'opened' }, ({ state }) => state === 'opened'],
  [{ labels: ['bug'] }, ({ labels }) => labels.includes('bug')],
  [{ labels: ['late', 'bug'] }, ({ labels }) => labels.includes('bug') && labels.includes('late')],
  [{ labels: ['Bug'] }, () => false],
  [{ not: { labels: ['bug'] } }, ({ labels }) => !labels.includes('bug')],
  [{ milestones: ['v1'] }, ({ milestone }) => milestone === 'v1'],
  [{ milestones: 'none', state: 'opened' }, ({ milestone, state }) => milestone === null && state === 'opened'],
  [{ search: 'even' }, ({ title, description }) => `${title} ${description}`.includes('even')],
  [
    { search: 'even', state: 'closed' },
    ({ title, description, state }) => `${title} ${description}`.includes('even') && state === 'closed',
  ],
  [{ my_reaction_emoji: 'tada' }, ({ reacted }, me) => reacted.includes(me)],
  [{ iids: [3, 4, 9] }, ({ iid }) => [3, 4, 9].includes(iid)],
  [{ iids: [9] }, ({ iid }) => iid === 9],
  [{ author_username: '' }, ({ author_id }) => author_id === scene.people.reporter.id],
  [{ author_id: 0 }, ({ author_id }) => author_id === scene.people.reporter.id],
  // Their author has more issues than are looked up before a walk.
  [{ author_id: -1, search: 'even' }, ({ project_id, title }) => project_id === crowd.id && title.includes('even')],
  [{ assignee_id: 0 }, ({ assignees }) => assignees.includes(scene.people.guest.id)],
  [{ assignee_usernames: [] }, ({ assignees }) => assignees.includes(scene.people.guest.id)],
  [{ confidential: true }, ({ confidential }) => confidential],
  [{ created_before: '2025-01-09T00:00:00Z' }, ({ created_at }) => new Date(created_at) <= new Date('2025-01-09Z')],
  [
    { updated_after: '2025-01-06T00:00:00Z', updated_before: '2025-01-14T00:00:00Z' },
    ({ updated_at }) =>
      new Date(updated_at) >= new Date('2025-01-06Z') && new Date(updated_at) <= new Date('2025-01-14Z'),
  ],
];

/** Replaces the placeholders of `FILTERS`, which are declared before the people are made. */
const withPeople = (filter: IssueFilter): IssueFilter => ({
  ...filter,
  ...(filter.author_username === '' && { author_username: scene.people.reporter.username }),
  ...(filter.author_id === 0 && { author_id: scene.people.reporter.id }),
  ...(filter.author_id === -1 && { author_id: scene.people.stranger.id }),
  ...(filter.assignee_id === 0 && { assignee_id: scene.people.guest.id }),
  ...(filter.assignee_usernames && { assignee_usernames: [scene.people.guest.username] }),
});

/** Reads the start of the list in small pages, by offset and by cursor, and its end by cursor. */
const paged = async (list: () => List<IssueRow>) => {
  const [byOffset, byCursor, backwards]: [IssueRow[], IssueRow[], IssueRow[]] = [[], [], []];
  const cursor = (row: IssueRow | undefined) => (row ? list().cursorOf(row) : null);
  const readAll = async (rows: IssueRow[], next: () => Promise<IssueRow[]>) => {
    while (rows.length < COMPARED) {
      const page = await next();
      rows.push(...page);
      if (page.length < PAGE) return;
    }
  };
  await readAll(byOffset, () => list().rows({ limit: PAGE, offset: byOffset.length }));
  await readAll(byCursor, () => list().rows({ limit: PAGE, after: cursor(byCursor.at(-1)) }));
  await readAll(backwards, () => list().rows({ limit: PAGE, before: cursor(backwards.at(-1)), backwards: true }));
  return [byOffset, byCursor, backwards].map((rows) => rows.slice(0, COMPARED).map(({ title }) => title));
};

type Person = 'owner' | 'reporter' | 'guest' | 'stranger' | 'anonymous' | 'administrator';

const contextOf = (name: Person): Context => {
  if (name === 'administrator') return app().context();
  const ctx = app().context(scene.people.stranger);
  if (name === 'anonymous') return { ...ctx, actor: { ...ctx.actor, userId: null } };
  return app().context(scene.people[name]);
};

const isSeenBy = (name: Person, issue: Stored): boolean => {
  if (name === 'administrator' || name === 'owner') return true;
  const isMember = name === 'reporter' || name === 'guest';
  if (issue.project_id === scene.project.id && !isMember) return false;
  if (!issue.confidential) return true;
  const id = name === 'anonymous' ? 0 : scene.people[name].id;
  return (
    issue.author_id === id ||
    issue.assignees.includes(id) ||
    (name === 'reporter' && issue.project_id === scene.project.id)
  );
};

const PEOPLE: readonly Person[] = ['owner', 'reporter', 'guest', 'stranger', 'anonymous', 'administrator'];
const PLACES = ['project', 'crowd', 'group', 'everywhere'] as const;

describe.each(PEOPLE)('to %s, lists of issues', (name) => {
  const who = PEOPLE.indexOf(name);

  it.each(PLACES)('have the same rows in the same order, however they are read: %s', async (place) => {
    const ctx = contextOf(name);
    const { project, group } = scene;
    const inPlace = (issue: Stored) =>
      place === 'project' ? issue.project_id === open.id : place !== 'crowd' || issue.project_id === crowd.id;
    const scope: IssueScope =
      place === 'everywhere'
        ? 'everywhere'
        : place === 'group'
          ? { group }
          : { project: await getProject(ctx, { id: place === 'crowd' ? crowd.id : open.id }) };
    expect(project.id).not.toBe(open.id);
    const where = PLACES.indexOf(place);
    let turn = 0;
    for (const [f, [given, fits]] of FILTERS.entries()) {
      // All orders of the first filter, and one of each other.
      const orders = f === 0 ? ISSUE_ORDERS : [ISSUE_ORDERS[turn % ISSUE_ORDERS.length]];
      for (const [o, order_by] of orders.entries()) {
        const sort = (turn++ + (turn >> 3)) % 2 === 0 ? 'asc' : 'desc';
        if (!isChosen(who, where, f, o)) continue;
        const filter = { ...withPeople(given), order_by, sort } as const;
        const matching = stored.filter(
          (issue) => inPlace(issue) && isSeenBy(name, issue) && fits(issue, ctx.actor.userId ?? 0),
        );
        const { rows } = await sql<{ title: string }>`
          select title from issues where id = any (${matching.map(({ id }) => id)}::bigint[])
          order by ${sql.ref(order_by ?? '')} ${sql.raw(sort)} nulls last, id ${sql.raw(sort)}`.execute(db());
        const titles = rows.map(({ title }) => title);
        const forwards = titles.slice(0, COMPARED);
        const list = () => listIssues(ctx, scope, filter);
        const found = await paged(list);
        expect({ filter, found }).toEqual({
          filter,
          found: [forwards, forwards, titles.toReversed().slice(0, COMPARED)],
        });
        expect([filter, await list().count(10_000)]).toEqual([filter, titles.length]);
        expect(await list().count(2)).toBe(Math.min(titles.length, 3));
      }
    }
  });

  it('are the same below one parent as below many', async () => {
    const ctx = contextOf(name);
    const { project, group } = scene;
    const kinds = [
      ['project', [project.id, open.id]],
      ['group', [group.id, 1_000_000]],
      ['group_alone', [group.id, 1_000_000]],
    ] as const;
    for (const [k, [kind, parents]] of kinds.entries()) {
      for (const [f, [given]] of FILTERS.slice(0, 9).entries()) {
        if (!isChosen(who, k, f)) continue;
        const filter = { ...withPeople(given), order_by: 'weight', sort: 'asc' } as const;
        const list = () => listIssuesBelow(ctx, kind, filter);
        const many = await list().rows(parents, { limit: 50 });
        const counts = await list().counts(parents, 100);
        for (const parent of parents) {
          const one = list();
          const rows = (await one.rows([parent], { limit: 50 })).get(parent) ?? [];
          expect([kind, filter, rows.map(({ id }) => id)]).toEqual([
            kind,
            filter,
            (many.get(parent) ?? []).map(({ id }) => id),
          ]);
          expect((await one.counts([parent], 100)).get(parent)).toBe(counts.get(parent));
        }
      }
    }
  });
});
