import { sql } from 'kysely';
import { PRIVATE, type Visibility, visibilityLevel, visibilityName } from '#domains/access/model.ts';
import { lockPlaceFor } from '#domains/groups/locks.ts';
import { requireGroupAbility } from '#domains/groups/policy.ts';
import type { NamespaceRow } from '#domains/groups/queries.ts';
import { closeUnrelated } from '#domains/merge-requests/unrelated.ts';
import {
  attributeNames,
  type ProjectAttributes,
  projectAttributes,
  readAttributes,
} from '#domains/projects/attributes.ts';
import { checkLimit, payloadOf, targetNamespace } from '#domains/projects/commands.ts';
import { projectCreated, projectForked, projectUpdated } from '#domains/projects/events.ts';
import { allowedVisibility, insertProject } from '#domains/projects/insert.ts';
import {
  ceilingBelow,
  closeForks,
  forkLimit,
  lockForks,
  requireWithin,
  visibilityLimit,
} from '#domains/projects/lineage.ts';
import { lockProject } from '#domains/projects/locks.ts';
import { type ProjectRow, projectScope } from '#domains/projects/model.ts';
import { withNewRepository } from '#domains/projects/new-repository.ts';
import { checkNameAndPath } from '#domains/projects/path.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import { getProject } from '#domains/projects/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { badRequest, conflict, DomainError, invalid, unauthenticated } from '#platform/errors.ts';
import { validRefName } from '#platform/git/ref-names.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { toJsonb } from '#platform/values/to-jsonb.ts';
import { beginImport } from './begin-import.ts';
import { FORK_TYPE } from './model.ts';

export interface ForkOptions {
  /** Defaults to the caller's own namespace. */
  readonly namespace?: IdOrPath | undefined;
  /** Default to the name and path of the source. */
  readonly name?: string | undefined;
  readonly path?: string | undefined;
  readonly description?: string | null | undefined;
  /** At most as visible as the source and as the namespace allows. */
  readonly visibility?: Visibility | undefined;
  /** Only this branch. */
  readonly branch?: string | undefined;
  readonly mr_default_target_self?: boolean | undefined;
}

/** The attributes that a fork takes from its source. */
const INHERITED: ReadonlySet<string> = new Set(
  attributeNames.filter(
    (name) =>
      name.endsWith('_access_level') ||
      name.endsWith('_template') ||
      [
        'description',
        'merge_method',
        'squash_option',
        'suggestion_commit_message',
        'ci_default_git_depth',
        'build_git_strategy',
        'build_timeout',
        'shared_runners_enabled',
        'remove_source_branch_after_merge',
        'lfs_enabled',
        'external_authorization_classification_label',
      ].includes(name),
  ),
);

/**
 * Creates a fork. The project exists at once; a job copies the repository.
 *
 * @throws DomainError `not_found` if the caller may not fork the project, or for a Namespace; `forbidden` if they may
 * not create projects there; `conflict` if the name or path is taken; `invalid`, `bad_request`
 */
export const forkProject = async (ctx: Context, given: ProjectRow, options: ForkOptions): Promise<ProjectRow> => {
  const { userId } = ctx.actor;
  if (userId === null) throw unauthenticated();
  requireAbility(ctx, given, 'fork_project');
  const namespace = await targetNamespace(ctx, options.namespace ?? null);
  requireGroupAbility(ctx, namespace, 'create_projects');
  const named = { name: options.name?.trim() || given.name, path: options.path || given.path };
  checkNameAndPath(named);
  const { description } = readAttributes({ description: options.description });
  const { branch = null } = options;
  if (branch !== null) await requireBranch(ctx, given, branch);
  return withNewRepository(ctx, async (tx, init) => {
    // The fork network must not be split meanwhile.
    await lockForks(tx, 'shared');
    await lockPlaceFor(tx, namespace, 'create_projects');
    const source = await lockProject(tx, given.id);
    requireAbility(tx, source, 'fork_project');
    if (source.import_status === 'scheduled' || source.import_status === 'started')
      throw conflict('409 Conflict - the project is still being imported or forked itself');
    await checkLimit(tx, namespace);
    const ceiling = await ceilingBelow(tx, source);
    const default_branch = branch ?? source.default_branch ?? 'main';
    const { id, disk_path } = await insertProject(tx, {
      ...named,
      namespace,
      creator_id: namespace.kind === 'user' && ctx.actor.isAdmin ? namespace.owner_id : userId,
      visibility_level: await visibilityOf(tx, ceiling, namespace, options.visibility ?? null),
      default_branch,
      attributes: inherited(source, { ...options, description }),
    }).catch(asConflict);
    await init(disk_path, default_branch);
    await relate(tx, id, source, await networkOf(tx, source), ceiling);
    const created = await getProject(tx, { id });
    tx.emit(projectCreated, { ...about(created), payload: await payloadOf(tx, created) });
    await emitFork(tx, source, created);
    await beginImport(tx, created, { import_type: FORK_TYPE, override_params: toJsonb({ branch }) });
    return getProject(tx, { id });
  });
};

/**
 * Records that an existing project is a fork of another.
 *
 * @throws DomainError `forbidden`; `not_found` if the caller may not fork the other project; `conflict` if the project
 * is a fork already; `bad_request` if that would make it a fork of its own fork; `invalid` if it is more visible than
 * the caller may make a fork of the other
 */
export const linkFork = async (ctx: Context, given: ProjectRow, from: ProjectRow): Promise<ProjectRow> => {
  requireAbility(ctx, given, 'admin_fork_relation');
  requireAbility(ctx, from, 'fork_project');
  return ctx.transaction(async (tx) => {
    await lockForks(tx);
    const source = await lockProject(tx, from.id);
    const project = await lockProject(tx, given.id);
    requireAbility(tx, project, 'admin_fork_relation');
    requireAbility(tx, source, 'fork_project');
    if (project.forked_from_id !== null) throw conflict('Project already forked');
    if (await descendsFrom(tx, source.id, project.id))
      throw badRequest('a project cannot be a fork of itself or of its forks');
    requireWithin(await forkLimit(tx, source), project.visibility_level);
    const network = await networkOf(tx, source);
    await moveTree(tx, project, network);
    const ceiling = Math.max(await ceilingBelow(tx, source), project.visibility_level);
    await relate(tx, project.id, source, network, ceiling);
    // Visibility limits pass on to the project's own forks.
    await closeForks(tx, project, ceiling);
    const fork = await changed(tx, project, source.id);
    await emitFork(tx, source, fork);
    return fork;
  });
};

/**
 * Ends the project's relation to its source. Its own forks stay related to it. `changed` is false if it was not a fork.
 *
 * @throws DomainError `forbidden`
 */
export const unlinkFork = async (
  ctx: Context,
  given: ProjectRow,
): Promise<{ readonly project: ProjectRow; readonly changed: boolean }> => {
  requireAbility(ctx, given, 'admin_fork_relation');
  return ctx.transaction(async (tx) => {
    await lockForks(tx);
    const project = await lockProject(tx, given.id);
    requireAbility(tx, project, 'admin_fork_relation');
    if (project.forked_from_id === null) return { project, changed: false };
    // The content stays the same, so the caller may make the project as visible as they could have made the fork.
    const visibility_ceiling = await visibilityLimit(tx, project);
    await tx.db
      .updateTable('projects')
      .set({ forked_from_id: null, visibility_ceiling })
      .where('id', '=', project.id)
      .execute();
    const hasForks = await tx.db
      .selectFrom('projects')
      .select('id')
      .where('forked_from_id', '=', project.id)
      .limit(1)
      .executeTakeFirst();
    await moveTree(tx, project, hasForks ? await addNetwork(tx, project.id) : null);
    return { project: await changed(tx, project, null), changed: true };
  });
};

const about = (project: ProjectRow) => ({
  ...projectScope(project),
  subject: { type: 'Project', id: project.id },
});

const requireBranch = async (ctx: Context, source: ProjectRow, branch: string): Promise<void> => {
  const isThere =
    validRefName(branch) && (await ctx.services.git.resolve(source.disk_path, `refs/heads/${branch}`)) !== null;
  if (!isThere) throw invalid({ branches: ['must be a branch of the project'] });
};

/** @throws DomainError `invalid` for a requested visibility that is not allowed */
const visibilityOf = async (
  tx: Tx,
  ceiling: number,
  namespace: NamespaceRow,
  wanted: Visibility | null,
): Promise<number> => {
  if (wanted === null) return allowedVisibility(tx, namespace, visibilityName(ceiling), { cap: true });
  requireWithin(ceiling, visibilityLevel(wanted));
  return allowedVisibility(tx, namespace, wanted);
};

const inherited = (source: ProjectRow, options: ForkOptions): ProjectAttributes => {
  const attributes = projectAttributes.parse(
    Object.fromEntries(Object.entries(source).filter(([name]) => INHERITED.has(name))),
  );
  return {
    ...attributes,
    // Without a check, because older paths may not keep the present rule.
    ci_config_path: source.ci_config_path,
    ...(options.description === undefined ? {} : { description: options.description }),
    ...(options.mr_default_target_self === undefined ? {} : { mr_default_target_self: options.mr_default_target_self }),
  };
};

/** Turns the error about a taken name into a conflict, which clients of forks expect. */
const asConflict = (error: unknown): never => {
  if (error instanceof DomainError && error.code === 'invalid' && error.details.fields) {
    const isTaken = Object.values(error.details.fields).flat().includes('has already been taken');
    if (isTaken) throw conflict(error.message, error.details.fields);
  }
  throw error;
};

const networkOf = async (tx: Tx, source: ProjectRow): Promise<number> => {
  if (source.fork_network_id !== null) return source.fork_network_id;
  const id = await addNetwork(tx, source.id);
  await tx.db.updateTable('projects').set({ fork_network_id: id }).where('id', '=', source.id).execute();
  return id;
};

const addNetwork = async (tx: Tx, root_project_id: number): Promise<number> => {
  // The project may have been the root of a network that it has left.
  await tx.db
    .updateTable('fork_networks')
    .set({ root_project_id: null })
    .where('root_project_id', '=', root_project_id)
    .execute();
  const { id } = await tx.db
    .insertInto('fork_networks')
    .values({ root_project_id })
    .returning('id')
    .executeTakeFirstOrThrow();
  return id;
};

const relate = async (
  tx: Tx,
  id: number,
  source: ProjectRow,
  fork_network_id: number,
  ceiling: number,
): Promise<void> => {
  await tx.db
    .updateTable('projects')
    .set({
      forked_from_id: source.id,
      fork_network_id,
      visibility_ceiling: sql`least(visibility_ceiling, ${ceiling})`,
    })
    .where('id', '=', id)
    .execute();
};

const descendants = (id: number) => sql`
  with recursive tree as (
    select id from projects where id = ${id}
    union select p.id from projects p join tree on p.forked_from_id = tree.id)
  select id from tree`;

const descendsFrom = async (tx: Tx, id: number, ancestor: number): Promise<boolean> => {
  const { rows } = await sql`select 1 from (${descendants(ancestor)}) d where d.id = ${id}`.execute(tx.db);
  return rows.length > 0;
};

/**
 * Moves the project and all its descendants to the network. Deletes the old network if it is empty. A job closes the
 * merge requests between them and the projects that they leave.
 */
const moveTree = async (tx: Tx, project: ProjectRow, fork_network_id: number | null): Promise<void> => {
  await sql`update projects set fork_network_id = ${fork_network_id} where id in (${descendants(project.id)})`.execute(
    tx.db,
  );
  if (project.fork_network_id === null || project.fork_network_id === fork_network_id) return;
  await sql`delete from fork_networks n where id = ${project.fork_network_id}
    and not exists (select from projects p where p.fork_network_id = n.id)`.execute(tx.db);
  tx.enqueue(closeUnrelated, { project_id: project.id, user_id: tx.actor.userId });
};

const changed = async (tx: Tx, before: ProjectRow, forked_from_id: number | null): Promise<ProjectRow> => {
  await tx.db.updateTable('projects').set({ updated_at: sql`now()` }).where('id', '=', before.id).execute();
  const after = await getProject(tx, { id: before.id });
  // The event leaves out the ids, because people who can see one project may not see the other.
  const changes = { forked: { previous: before.forked_from_id !== null, current: forked_from_id !== null } };
  tx.emit(projectUpdated, { ...about(after), payload: { ...(await payloadOf(tx, after)), changes } });
  return after;
};

/** The event names the fork only if it is as visible as its source. */
const emitFork = async (tx: Tx, source: ProjectRow, fork: ProjectRow): Promise<void> => {
  const { forks_count } = await getProject(tx, { id: source.id });
  const shows = fork.visibility_level > PRIVATE && fork.visibility_level >= source.visibility_level;
  tx.emit(projectForked, {
    ...about(source),
    payload: {
      user_id: shows ? tx.actor.userId : null,
      forks_count,
      fork: shows ? { id: fork.id, path_with_namespace: fork.full_path } : null,
    },
  });
};
