import { type RawBuilder, sql } from 'kysely';
import type { Container } from '#domains/planning/container.ts';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import type { HookedProject } from '#domains/projects/webhook.ts';
import { type UserSummary, userSummariesByIds } from '#domains/users/queries.ts';
import { type Context, systemActor } from '#platform/context.ts';
import type { Commit } from '#platform/git/objects.ts';

/** The context of a hook test. Data is read as the hub itself, for a caller who administers the whole container. */
export interface Scene {
  readonly ctx: Context;
  readonly container: Container;
  /** The caller. Samples name them as the acting user. */
  readonly caller: UserSummary | null;
  readonly now: string;
}

export const sceneOf = async (ctx: Context, container: Container): Promise<Scene> => {
  const { userId } = ctx.actor;
  const people = await userSummariesByIds(ctx, [userId]);
  return {
    ctx: { ...ctx, actor: systemActor },
    container,
    caller: people.get(userId ?? 0) ?? null,
    now: ctx.clock.now().toISOString(),
  };
};

/** The part of a project that the data belongs to. Parts that are turned off are skipped. */
type Part = 'issues_access_level' | 'merge_requests_access_level' | 'builds_access_level' | 'repository_access_level';

export interface Found {
  readonly id: number;
  readonly project_id: number;
}

/**
 * Returns the newest row of a table with `project_id`, in the project or in any project below the group. Compares the
 * newest row of each project, which an index finds.
 */
export const newestIn = async (
  { ctx, container }: Scene,
  table: 'issues' | 'merge_requests' | 'notes' | 'pipelines' | 'jobs' | 'releases',
  part: Part,
  {
    by = sql`t.id`,
    where = sql`true`,
  }: { readonly by?: RawBuilder<unknown>; readonly where?: RawBuilder<unknown> } = {},
): Promise<Found | null> => {
  const { rows } = await sql<Found>`
    select newest.id, newest.project_id from projects p
    cross join lateral (
      select t.id, t.project_id, ${by} as sorted from ${sql.table(table)} t
      where t.project_id = p.id and ${where} order by ${by} desc, t.id desc limit 1
    ) newest
    where ${isIn(container)} and p.${sql.ref(part)} <> 'disabled'
    order by newest.sorted desc, newest.id desc limit 1`.execute(ctx.db);
  return rows[0] ?? null;
};

const isIn = (container: Container) =>
  container.kind === 'project'
    ? sql`p.id = ${container.project.id}`
    : sql`p.namespace_id in (select n.id from namespaces n where n.traversal_ids @> array[${container.group.id}::bigint])
        and not p.pending_delete and not p.hidden`;

/** Returns the project with a non-empty repository and the latest activity, or null. */
export const newestRepository = async ({ ctx, container }: Scene): Promise<ProjectRow | null> => {
  const { rows } = await sql<{ id: number }>`
    select p.id from projects p
    where ${isIn(container)} and not p.empty_repo and p.repository_access_level <> 'disabled'
    order by p.last_activity_at desc, p.id desc limit 1`.execute(ctx.db);
  return rows[0] ? findProject(ctx, { id: rows[0].id }) : null;
};

/** Returns the newest project, or a sample project if the group has none. */
export const someProject = async (scene: Scene): Promise<HookedProject> => {
  const { ctx, container } = scene;
  if (container.kind === 'project') return container.project;
  const { rows } = await sql<{ id: number }>`
    select p.id from projects p where ${isIn(container)} order by p.id desc limit 1`.execute(ctx.db);
  const found = rows[0] && (await findProject(ctx, { id: rows[0].id }));
  return found ?? sampleProject(container);
};

const sampleProject = ({ group }: Extract<Container, { kind: 'group' }>): HookedProject => ({
  id: 0,
  name: 'Sample project',
  description: 'A sample project for testing a hook.',
  avatar_key: null,
  full_path: `${group.full_path}/sample-project`,
  visibility_level: group.visibility_level,
  default_branch: 'main',
  ci_config_path: null,
  namespace: {
    id: group.id,
    name: group.name,
    path: group.path,
    kind: 'group',
    full_path: group.full_path,
    full_name: group.full_name,
    parent_id: group.parent_id,
    owner_id: null,
    visibility_level: group.visibility_level,
    traversal_ids: group.traversal_ids,
    deletion_marked_on: group.deletion_marked_on,
    avatar_key: null,
  },
});

export const SAMPLE_SHA = 'da1560886d4f094c3e6c9ef40349f7d38b5d27d7';
export const SAMPLE_PARENT = '95790bf891e76fee5e1747ab589903a6a1f80f22';

export const sampleCommit = ({ caller, now }: Scene): Commit => {
  const author = { name: caller?.name ?? 'Sample', email: caller?.public_email || 'sample@example.com' };
  return {
    id: SAMPLE_SHA,
    short_id: SAMPLE_SHA.slice(0, 8),
    parent_ids: [SAMPLE_PARENT],
    title: 'Change a sample',
    message: 'Change a sample\n',
    author_name: author.name,
    author_email: author.email,
    authored_date: now,
    committer_name: author.name,
    committer_email: author.email,
    committed_date: now,
    trailers: {},
    extended_trailers: {},
  };
};
