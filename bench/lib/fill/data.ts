import type pg from 'pg';
import type { PoolClient } from 'pg';
import { digestToken } from '../../../src/platform/secrets.ts';
import { withoutIndexes } from './bulk.ts';
import { PEOPLE, WATCHED } from './watched.ts';

const BULKY = [
  'users',
  'namespaces',
  'projects',
  'project_statistics',
  'project_stars',
  'members',
  'namespace_shares',
  'project_shares',
  'namespace_access',
] as const;
const SLICE = 100_000;
/** Number of group trees whose access is computed at a time. */
const TREES = 2_000;
export const LEAST_PROJECTS = 20_000;

export type Report = (line: string) => void;

/**
 * Fills an empty, migrated database with this many projects, a multiple of 20,000, a tenth as many groups and a
 * twentieth as many users. Deterministic: all variation is hashed from the row's number.
 */
export const fillProjects = async (pool: pg.Pool, projects: number, report: Report): Promise<void> => {
  const client = await pool.connect();
  try {
    await client.query('begin');
    await client.query(`
      set local maintenance_work_mem = '512MB'; set local work_mem = '128MB'; set local plan_cache_mode = auto;
      ${functions(projects)}`);
    const restore = await withoutIndexes(client, BULKY);
    const step = async (name: string, run: () => Promise<unknown>) => {
      const start = performance.now();
      await run();
      report(`${name.padEnd(34)} ${((performance.now() - start) / 1_000).toFixed(1)} s`);
    };
    await step('users', () => client.query(USERS));
    await step('groups and personal namespaces', () => client.query(NAMESPACES));
    await step('stars', () => client.query(STARS));
    for (let from = 1; from <= projects; from += SLICE) {
      const to = Math.min(from + SLICE - 1, projects);
      await step(`projects to ${to}`, () => client.query(projectsOf(from, to)));
    }
    await step('members', () => client.query(MEMBERS));
    await step('shares', () => client.query(SHARES));
    for (const table of ['users', 'namespaces', 'members', 'namespace_shares'] as const)
      await step(`indexes of ${table}`, () => restore(table));
    await client.query('analyze users, namespaces, members, namespace_shares');
    await step('access to namespaces', () => fillAccess(client));
    for (const table of [
      'namespace_access',
      'project_stars',
      'project_shares',
      'project_statistics',
      'projects',
    ] as const)
      await step(`indexes of ${table}`, () => restore(table));
    await step('sizes of namespaces', () => client.query(SIZES));
    await step('topics', () => client.query(TOPICS));
    await client.query(TOKENS, [
      Object.values(PEOPLE).map(({ username }) => username),
      Object.values(PEOPLE).map(({ token }) => digestToken(token)),
    ]);
    await client.query(PROTECTIONS);
    await client.query(`
      select setval(pg_get_serial_sequence('users', 'id'), (select max(id) from users));
      select setval(pg_get_serial_sequence('namespaces', 'id'), (select max(id) from namespaces));
      select setval(pg_get_serial_sequence('projects', 'id'), (select max(id) from projects));
      create schema bench;
      create table bench.fill (projects bigint not null, made_at timestamptz not null default now());
      insert into bench.fill (projects) values (${projects})`);
    await client.query('commit');
    await step('vacuum and analyze', () => client.query('vacuum analyze'));
  } catch (error) {
    await client.query('rollback').catch(() => {});
    throw error;
  } finally {
    client.release(true);
  }
};

/** Returns the number of projects that the database was filled with, or null when it was not filled. */
export const filledWith = async (pool: pg.Pool): Promise<number | null> => {
  const { rows } = await pool.query<{ there: boolean }>(`select to_regclass('bench.fill') is not null as there`);
  if (!rows[0]?.there) return null;
  return (await pool.query<{ projects: number }>('select projects from bench.fill')).rows[0]?.projects ?? null;
};

/** Fills the table of languages, which a later migration added, if it exists and is empty. */
export const fillLanguages = async (pool: pg.Pool, report: Report): Promise<void> => {
  const { rows } = await pool.query<{ there: boolean }>(`select to_regclass('project_languages') is not null as there`);
  if (!rows[0]?.there) return;
  const { rows: some } = await pool.query('select 1 from project_languages limit 1');
  if (some.length > 0) return;
  await pool.query(`
    ${functions((await filledWith(pool)) ?? LEAST_PROJECTS)}
    insert into project_languages (project_id, name, share, bytes)
      select p.id, l.name, l.share, l.share::bigint * 1000
      from projects p cross join lateral (values
        (case when p.id % pg_temp.every() = 0 and (p.id / pg_temp.every()) % 40 = 0 then '${WATCHED.rareLanguage}'
          else (array['${WATCHED.commonLanguage}', 'Ruby', 'Go', 'Python', 'Java', 'C', 'Rust'])[1 + pg_temp.h(p.id, 41, 7)] end, 80),
        ((array['Shell', 'HTML', 'CSS', 'Dockerfile'])[1 + pg_temp.h(p.id, 42, 4)], 20)) l (name, share);
    analyze project_languages`);
  report('languages');
};

/**
 * SQL functions. `h(i, salt, n)` hashes the row's number to a number below n. `n_projects()` and so on return the
 * counts. `every()` is the interval of watched projects, and likewise of watched groups.
 */
const functions = (projects: number): string => `
  create or replace function pg_temp.h(i bigint, salt int, n bigint) returns int immutable language sql
    as $$ select (abs(hashint8extended(i, salt) / 2) % n)::int $$;
  create or replace function pg_temp.n_projects() returns bigint immutable language sql as $$ select ${projects}::bigint $$;
  create or replace function pg_temp.n_groups() returns bigint immutable language sql as $$ select ${projects / 10}::bigint $$;
  create or replace function pg_temp.n_users() returns bigint immutable language sql as $$ select ${projects / 20}::bigint $$;
  create or replace function pg_temp.every() returns bigint immutable language sql as $$ select ${projects / WATCHED.projects}::bigint $$;
`;

const ADJECTIVES = `array['amber','brisk','calm','daring','eager','fancy','gentle','happy','icy','jolly','keen','lively','merry',
  'noble','olive','proud','quiet','rapid','solid','tidy','urban','vivid','warm','young','zesty','bold','clever','dusty','early','fresh']`;
const NOUNS = `array['${WATCHED.commonTerm}','gateway','console','library','toolkit','website','backend','frontend','worker','pipeline']`;

// The first users are PEOPLE, and all others are the crowd. Ids start after the existing ones.
const USERS = `
  create temporary table base on commit drop as
    select (select coalesce(max(id), 0) from users) as users, (select coalesce(max(id), 0) from namespaces) as namespaces;
  insert into users (id, username, name, email, is_admin, confirmed_at, created_at, updated_at)
    select base.users + u, named.username, 'Person ' || u || ' ' || (${ADJECTIVES})[1 + pg_temp.h(u, 1, 30)],
      named.username || '@example.com', u = 1, timestamptz '2021-01-01Z',
      timestamptz '2021-01-01Z' + u * interval '4 years' / pg_temp.n_users(), timestamptz '2025-06-01Z'
    from base, generate_series(1, pg_temp.n_users()) u
      cross join lateral (select coalesce((array['${Object.values(PEOPLE)
        .map(({ username }) => username)
        .join(`','`)}'])[u], 'person-' || u) as username) named`;

// Ten groups make a tree: the first at the top, three below it, and so on, at most four levels. The last group of some
// trees belongs to the watched tree instead, in which every group has up to ten children. A whole tree has the same
// visibility.
const NAMESPACES = `
  create temporary table groups on commit drop as
    with recursive plan as (
      select g, watched,
        case when watched is not null then nullif((watched + 8) / 10, 0) * (pg_temp.every())
          else (g - place) + (array[null, 0, 0, 0, 1, 1, 2, 4, 5, 2])[place + 1] end as parent,
        case when watched is not null then 20
          else (array[20, 20, 0, 0, 20, 10, 0, 0, 20, 0, 20, 20, 0, 0, 20, 10, 0, 0, 10, 0])[1 + pg_temp.h((g - 1) / 10, 2, 20)] end as visibility,
        case watched when 1 then '${WATCHED.group}' else (${ADJECTIVES})[1 + pg_temp.h(g, 3, 30)] || '-team-' || g end as path,
        case watched when 1 then 'Atlas' else initcap((${ADJECTIVES})[1 + pg_temp.h(g, 3, 30)]) || ' team ' || g end as name
      from generate_series(1, pg_temp.n_groups()) g
        cross join lateral (select (g - 1) % 10 as place, case when g % pg_temp.every() = 0 then g / pg_temp.every() end as watched) at
    ), tree as (
      select plan.*, array[g] as above, path as full_path, name as full_name from plan where parent is null
      union all
      select plan.*, tree.above || plan.g, tree.full_path || '/' || plan.path, tree.full_name || ' / ' || plan.name
      from plan join tree on plan.parent = tree.g
    )
    select * from tree;
  create unique index on groups (g);
  analyze groups;
  insert into namespaces (id, kind, parent_id, traversal_ids, name, path, full_path, full_name, description, visibility_level, created_at, updated_at)
    select base.namespaces + g, 'group', base.namespaces + parent, (select array_agg(base.namespaces + a order by at) from unnest(above) with ordinality x (a, at)),
      name, path, full_path, full_name, 'Everything that ' || name || ' works on', visibility,
      timestamptz '2021-01-01Z' + g * interval '4 years' / pg_temp.n_groups(), timestamptz '2025-06-01Z'
    from groups, base order by g;
  insert into namespaces (id, kind, owner_id, traversal_ids, name, path, full_path, full_name, visibility_level, created_at, updated_at)
    select base.namespaces + pg_temp.n_groups() + n, 'user', u.id, array[base.namespaces + pg_temp.n_groups() + n],
      u.name, u.username, u.username, u.name, 20, u.created_at, u.updated_at
    from base, generate_series(1, pg_temp.n_users()) n join users u on u.id = (select users from base) + n
    order by n;
  create temporary table places on commit drop as
    select id - base.namespaces as n, full_path, visibility_level, kind from namespaces, base where id > base.namespaces;
  create unique index on places (n);
  analyze places`;

const STARS = `
  insert into project_stars (user_id, project_id, created_at)
    select base.users + u, p, timestamptz '2025-01-01Z' from base, (
      select u, 1 + pg_temp.h(u * 10 + i, 4, pg_temp.n_projects())::bigint as p
        from generate_series(4, pg_temp.n_users()) u, generate_series(1, 1 + pg_temp.h(u, 5, 5)) i
      union
      select u, k * pg_temp.every() from generate_series(2, 3) u, generate_series(33, 990, 33) k
    ) starred
    where p % pg_temp.every() <> 0 or u < 4
  on conflict do nothing;
  create temporary table star_counts on commit drop as
    select project_id, count(*)::int as count from project_stars group by 1;
  create unique index on star_counts (project_id);
  analyze star_counts`;

/**
 * Returns the SQL for a range of projects. Of the unwatched projects, 15 in 100 are personal, 5 are in one of a few
 * large groups of 250, and the rest are anywhere.
 */
const projectsOf = (from: number, to: number): string => `
  with placed as (
    select p, k,
      case when k between 991 and 995 then pg_temp.n_groups() + 2
        when k > 995 then pg_temp.n_groups() + 3
        when k is not null then (1 + (k - 1) % ${WATCHED.groups}) * pg_temp.every()
        when p % 20 = 10 then 250 + 500 * pg_temp.h(p, 6, pg_temp.n_groups() / 500)
        when p % 20 in (3, 7, 11) then pg_temp.n_groups() + 4 + pg_temp.h(p, 7, pg_temp.n_users() - 3)
        else ordinary - case when ordinary % pg_temp.every() = 0 then 1 else 0 end end as place
    from generate_series(${from}::bigint, ${to}) p
      cross join lateral (select case when p % pg_temp.every() = 0 then p / pg_temp.every() end as k,
        1 + pg_temp.h(p, 8, pg_temp.n_groups())::bigint as ordinary) at
  ), made as (
    select p, k, base.namespaces + place as namespace_id, n.full_path as above,
      case when k = 1 then 'many-branches'
        when k % 41 = 0 then '${WATCHED.rareTerm}-' || noun || '-' || p
        else adjective || '-' || noun || '-' || p end as path,
      least(n.visibility_level, case
        when k is not null then (array[20, 20, 10, 0, 0])[1 + (case when k = 1 then 0 else k % 5 end)]
        when n.kind = 'user' then (array[20, 0, 0, 10, 20, 0, 0, 0, 0, 10])[1 + dice % 10]
        when n.visibility_level = 20 then (array[20, 20, 0, 20, 10, 20, 20, 0, 10, 20])[1 + dice % 10]
        else (array[10, 0])[1 + dice % 2] end) as visibility,
      adjective, noun, dice, base.users, seed
    from base, placed join places n on n.n = place
      -- watched projects are the same in every database
      cross join lateral (select coalesce(-k, p) as seed) seeds
      cross join lateral (select (${ADJECTIVES})[1 + pg_temp.h(seed, 9, 30)] as adjective,
        (${NOUNS})[1 + pg_temp.h(seed, 10, 10)] as noun, pg_temp.h(seed, 11, 1000) as dice) words
  ), projects_made as (
    insert into projects (id, namespace_id, creator_id, name, path, full_path, disk_path, description, visibility_level,
        default_branch, topics, star_count, forks_count, open_issues_count, empty_repo, archived, created_at, updated_at, last_activity_at)
      select p, namespace_id, users + 4 + pg_temp.h(p, 12, pg_temp.n_users() - 4), initcap(replace(path, '-', ' ')), path, above || '/' || path,
        '@hashed/' || substr(digest, 1, 2) || '/' || substr(digest, 3, 2) || '/' || digest || '.git',
        'The ' || adjective || ' ' || noun || ' of ' || above || ', number ' || p || ' of all, with a description of usual length.', visibility,
        'main',
        case when k % 40 = 0 then array['${WATCHED.rareTopic}', 'node']
          when k is not null then array['node']
          when dice % 3 = 0 then array['${WATCHED.commonTopic}', 'node']
          else array[(array['ruby', 'go', 'rust', 'docs'])[1 + dice % 4]] end,
        coalesce(s.count, 0), 0, dice % 23, false, dice = 999,
        timestamptz '2021-01-01Z' + p * interval '5 years' / pg_temp.n_projects(),
        timestamptz '2026-01-01Z' - pg_temp.h(seed, 13, 1576800000) * interval '0.1 seconds',
        timestamptz '2026-01-01Z' - pg_temp.h(seed, 14, 1576800000) * interval '0.1 seconds'
      from made left join star_counts s on s.project_id = p
        cross join lateral (select encode(sha256(p::text::bytea), 'hex') as digest) hashed
      order by p)
  insert into project_statistics (project_id, commit_count, repository_size, wiki_size, packages_size, uploads_size)
    select p, dice, pg_temp.h(seed, 15, 50000000), pg_temp.h(seed, 16, 100000), pg_temp.h(seed, 17, 1000000), pg_temp.h(seed, 18, 10000)
    from made order by p`;

// Users of the crowd are in one to ten groups. One in fifty groups is chosen twenty times as often as the others, and
// one in twenty users is in a large group. The top of the watched tree has 200 members from the crowd.
const MEMBERS = `
  insert into members (user_id, namespace_id, access_level, created_at, updated_at)
    select distinct on (u, g) base.users + u, base.namespaces + g, level, timestamptz '2025-01-01Z', timestamptz '2025-01-01Z' from base, (
      select u, case
          when i = 1 and u % 20 = 0 then 250 + 500 * pg_temp.h(u, 20, pg_temp.n_groups() / 500)
          when pg_temp.h(u * 10 + i, 21, 10) < 3 then 1 + 50 * pg_temp.h(u * 10 + i, 22, pg_temp.n_groups() / 50)
          else chosen - case when chosen % pg_temp.every() = 0 then 1 else 0 end end as g,
        (array[10, 20, 30, 30, 30, 40, 50])[1 + pg_temp.h(u * 10 + i, 24, 7)] as level
      from generate_series(4, pg_temp.n_users()) u, generate_series(1, 1 + pg_temp.h(u, 25, 4) * pg_temp.h(u, 26, 4)) i
        cross join lateral (select 1 + pg_temp.h(u * 10 + i, 23, pg_temp.n_groups())::bigint as chosen) at
      union all select 100 + u, pg_temp.every(), 30 from generate_series(1, 200) u
      union all select 2, 50 * pg_temp.every(), 30
      union all select 3, pg_temp.every(), 30
    ) given order by u, g, level;
  insert into members (user_id, project_id, access_level, created_at, updated_at)
    select distinct on (u, p) base.users + u, p, level, timestamptz '2025-01-01Z', timestamptz '2025-01-01Z' from base, (
      select 4 + pg_temp.h(i, 27, pg_temp.n_users() - 4) as u, 1 + pg_temp.h(i, 28, pg_temp.n_projects())::bigint as p,
        (array[20, 30, 40])[1 + i % 3] as level
      from generate_series(1, pg_temp.n_projects() / 10) i
      union all select 2, k * pg_temp.every(), 40 from generate_series(201, 205) k
    ) given order by u, p, level`;

const SHARES = `
  insert into namespace_shares (namespace_id, shared_with_id, access_level, created_at)
    select distinct on (g, w) base.namespaces + g, base.namespaces + w, level, timestamptz '2025-01-01Z' from base, (
      select chosen - case when chosen % pg_temp.every() = 0 then 1 else 0 end as g,
        friend - case when friend % pg_temp.every() = 0 then 1 else 0 end as w, (array[10, 20, 30])[1 + i % 3] as level
      from generate_series(1, pg_temp.n_groups() / 20) i
        cross join lateral (select 1 + pg_temp.h(i, 30, pg_temp.n_groups())::bigint as chosen, 1 + pg_temp.h(i, 31, pg_temp.n_groups())::bigint as friend) at
    ) given where g <> w order by g, w;
  insert into project_shares (project_id, shared_with_id, access_level, created_at)
    select distinct on (p, w) p, base.namespaces + w, level, timestamptz '2025-01-01Z' from base, (
      select 1 + pg_temp.h(i, 32, pg_temp.n_projects())::bigint as p, friend - case when friend % pg_temp.every() = 0 then 1 else 0 end as w,
        (array[20, 30])[1 + i % 2] as level
      from generate_series(1, pg_temp.n_projects() / 50) i
        cross join lateral (select 1 + pg_temp.h(i, 33, pg_temp.n_groups())::bigint as friend) at
      where (1 + pg_temp.h(i, 32, pg_temp.n_projects())) % pg_temp.every() <> 0
    ) given order by p, w;
  -- Two watched projects are shared with a group of the watched tree, and twenty with the first groups of all, which
  -- are the same in every database.
  insert into project_shares (project_id, shared_with_id, access_level, created_at)
    select k * pg_temp.every(), base.namespaces + w, 20, timestamptz '2025-01-01Z' from base, (
      select k, 50 * pg_temp.every() as w from generate_series(301, 302) k
      union all select k, k from generate_series(7, 990, 50) k
    ) given;
  -- Of the projects that were active last, two are shared with a closed group in every database. Otherwise the smaller
  -- one happens to have none, and its list takes one statement less.
  create temp table newest on commit drop as
    select id, row_number() over (order by last_activity_at desc, id desc) as place from projects
    where visibility_level >= 10 order by last_activity_at desc, id desc limit 100;
  delete from project_shares where project_id in (select id from newest);
  insert into project_shares (project_id, shared_with_id, access_level, created_at)
    select newest.id, (select max(id) from namespaces where kind = 'group' and visibility_level = 0), 20,
      timestamptz '2025-01-01Z' from newest where place in (5, 15)`;

/** Computes access with the hub's own function, some trees at a time. */
const fillAccess = async (client: PoolClient): Promise<void> => {
  const { rows } = await client.query<{ ids: number[] }>(
    `select array_agg(id) as ids from (
       select id, (row_number() over (order by id) - 1) / ${TREES} as slice from namespaces where parent_id is null) tops
     group by slice order by slice`,
  );
  for (const { ids } of rows) await client.query('select refresh_namespace_access($1, null)', [ids]);
};

const SIZES = `
  insert into namespace_sizes (namespace_id, repository_size, wiki_size, packages_size, uploads_size)
    select above.id, sum(s.repository_size), sum(s.wiki_size), sum(s.packages_size), sum(s.uploads_size)
      from project_statistics s join projects p on p.id = s.project_id join namespaces n on n.id = p.namespace_id
        cross join unnest(n.traversal_ids) above (id)
      group by above.id`;

const TOPICS = `
  insert into topics (name, title, public_count, internal_count, private_count)
    select topic, topic, count(*) filter (where visibility_level = 20), count(*) filter (where visibility_level = 10),
        count(*) filter (where visibility_level = 0)
      from projects, unnest(topics) topic group by topic`;

const TOKENS = `
  insert into personal_access_tokens (user_id, name, scopes, digest)
    select u.id, 'bench', '{api}', given.digest from unnest($1::text[], $2::bytea[]) given (username, digest)
      join users u on u.username = given.username`;

const PROTECTIONS = `
  with protected as (
    insert into protected_branches (project_id, name)
      select p.id, rule from projects p, unnest(array['main', 'release/*']) rule where p.full_path = '${WATCHED.branches}'
      returning id)
  insert into protection_levels (protected_branch_id, action, access_level)
    select id, action, 40 from protected, unnest(array['push', 'merge']) action`;
