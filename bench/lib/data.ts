import type pg from 'pg';
import { digestToken, randomToken } from '../../src/platform/secrets.ts';

export interface Seeded {
  /** The token of a user who is a developer of the top-level group. */
  readonly token: string;
  readonly userId: number;
}

export interface SeedOptions {
  readonly groups: number;
  readonly projectsPerGroup: number;
  readonly users?: number;
  readonly visibility?: 'private' | 'public';
}

/**
 * Fills a database, bypassing the API: groups below a common one, projects in them, and users who are developers of the
 * common group.
 */
export const seed = async (
  pool: pg.Pool,
  { groups, projectsPerGroup, users = 50, visibility = 'private' }: SeedOptions,
): Promise<Seeded> => {
  const level = visibility === 'public' ? 20 : 0;
  await pool.query(`
    insert into users (username, name, email)
      select 'bench-' || i, 'Bench User ' || i, 'bench-' || i || '@example.com' from generate_series(1, ${users}) i;
    insert into namespaces (kind, owner_id, name, path, full_path, full_name, visibility_level)
      select 'user', id, name, username, username, name, 20 from users where username like 'bench-%';
    insert into namespaces (kind, name, path, full_path, full_name, visibility_level)
      values ('group', 'Bench', 'bench', 'bench', 'Bench', ${level});
    insert into namespaces (kind, parent_id, name, path, full_path, full_name, visibility_level, description)
      select 'group', top.id, 'Team ' || i, 'team-' || i, 'bench/team-' || i, 'Bench / Team ' || i, ${level},
        'Everything that team ' || i || ' works on'
      from namespaces top, generate_series(1, ${groups}) i where top.full_path = 'bench';
    update namespaces set traversal_ids = array_remove(array[parent_id, id], null);
    insert into projects (namespace_id, creator_id, name, path, full_path, disk_path, description, visibility_level,
        default_branch, topics, star_count, forks_count, open_issues_count, empty_repo, created_at, updated_at, last_activity_at)
      select n.id, (select min(id) from users), 'Project ' || i, 'project-' || i, n.full_path || '/project-' || i,
        '@bench/' || n.id || '-' || i, 'The project number ' || i || ' of ' || n.name || ', with a description of usual length.', ${level},
        'main', array['node', 'graphql'], i % 17, i % 5, i % 23, false,
        now() - make_interval(mins => (n.id * 1000 + i)::int), now() - make_interval(mins => i), now() - make_interval(mins => i)
      from namespaces n, generate_series(1, ${projectsPerGroup}) i where n.parent_id is not null;
    insert into project_statistics (project_id, commit_count) select id, 10 from projects;
    insert into members (user_id, namespace_id, access_level)
      select u.id, n.id, 30 from users u, namespaces n where n.full_path = 'bench' and u.username like 'bench-%';
    select refresh_namespace_access((select array_agg(id) from namespaces), null);
    analyze`);
  const { rows } = await pool.query<{ id: number }>(`select id from users where username = 'bench-1'`);
  const userId = rows[0]?.id ?? 0;
  const [token = ''] = await tokensOf(pool, [userId]);
  return { token, userId };
};

/** Lifts the rate limit that would refuse list requests. Affects hubs that start afterwards. */
export const liftLimits = (pool: pg.Pool): Promise<unknown> =>
  pool.query(
    `update application_settings set attributes = attributes || '{"projects_api_rate_limit_unauthenticated": 0}'`,
  );

/** Creates a token with scope `api` for each of the users. */
export const tokensOf = async (pool: pg.Pool, userIds: readonly number[]): Promise<string[]> => {
  const tokens = userIds.map(() => `glpat-${randomToken()}`);
  await pool.query(
    `insert into personal_access_tokens (user_id, name, scopes, digest)
      select user_id, 'bench', '{api}', digest from unnest($1::bigint[], $2::bytea[]) as given (user_id, digest)`,
    [userIds, tokens.map(digestToken)],
  );
  return tokens;
};

/** Creates this many merge requests in every project, with rotating authors. */
export const seedMergeRequests = async (pool: pg.Pool, perProject: number): Promise<void> => {
  await pool.query(`
    insert into merge_requests (project_id, source_project_id, iid, title, description, source_branch, target_branch, author_id)
      select p.id, p.id, i, 'Merge request ' || i || ' of ' || p.full_path, 'What it changes, and why.', 'topic-' || i, 'main',
        (select id from users where username = 'bench-' || (1 + (p.id + i) % 40))
      from projects p, generate_series(1, ${perProject}) i;
    analyze merge_requests`);
};
