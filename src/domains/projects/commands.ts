import { sql } from 'kysely';
import { labelDigest } from '#domains/access/labels.ts';
import { type Visibility, visibilityLevel } from '#domains/access/model.ts';
import { lockPlaceFor } from '#domains/groups/locks.ts';
import { requireGroupAbility } from '#domains/groups/policy.ts';
import { getNamespace, type NamespaceRow } from '#domains/groups/queries.ts';
import { enabledByDefault, requireRunnersAllowed } from '#domains/groups/shared-runners.ts';
import { lockNamespace, type TreePosition } from '#domains/groups/tree.ts';
import { getSettings } from '#domains/settings/queries.ts';
import { removeAvatar, storeAvatar } from '#domains/users/avatar.ts';
import type { Context, Tx } from '#platform/context.ts';
import { badRequest, conflict, forbidden, invalid, notFound, unauthenticated } from '#platform/errors.ts';
import type { SentFile } from '#platform/files/picture.ts';
import { validRefName } from '#platform/git/ref-names.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';
import { type ProjectAttributes, projectAttributes } from './attributes.ts';
import { differences, visibleChanges } from './changes.ts';
import { projectArchived, projectCreated, projectUnarchived, projectUpdated } from './events.ts';
import { nextPolicy, type PolicyChanges } from './expiration-policy.ts';
import { type CheckedSource, checkImportSource } from './importing.ts';
import { initialBranch } from './initial-branch.ts';
import { allowedVisibility, asTaken, checkFree, columnsOf, forgetRedirect, insertProject } from './insert.ts';
import { closeForks, lockForks, raiseCeilings, requireWithin, visibilityLimit } from './lineage.ts';
import { lockProject } from './locks.ts';
import { type ProjectRow, projectScope } from './model.ts';
import { commitReadme, withNewRepository } from './new-repository.ts';
import { checkNameAndPath, pathFromName } from './path.ts';
import { describeProjects, type ProjectPayload } from './payload.ts';
import { requireAbility } from './policy.ts';
import { getProject, personalNamespaceId } from './queries.ts';

// Parts that other domains use are in files of their own.

interface BeyondSettings {
  /** Null removes the avatar. */
  readonly avatar?: SentFile | null | undefined;
  readonly container_expiration_policy_attributes?: PolicyChanges | undefined;
  /** Administrators only. `default` is the only allowed value: there is one storage. */
  readonly repository_storage?: string | undefined;
  /** Administrators only. The maximum size of an artifact in MiB. Null: as the group above, or the instance. */
  readonly max_artifacts_size?: number | null | undefined;
}

export interface NewProject extends ProjectAttributes, BeyondSettings {
  /** One of `name` and `path` is required. The other is derived from it. */
  readonly name?: string | undefined;
  readonly path?: string | undefined;
  /** Defaults to the caller's own namespace. */
  readonly namespace?: IdOrPath | undefined;
  readonly visibility?: Visibility | undefined;
  readonly default_branch?: string | undefined;
  readonly initialize_with_readme?: boolean | undefined;
  /** A job clones the repository from this address. */
  readonly import_url?: string | undefined;
}

export interface ProjectChanges extends ProjectAttributes, BeyondSettings {
  readonly name?: string | undefined;
  readonly path?: string | undefined;
  readonly visibility?: Visibility | undefined;
  readonly default_branch?: string | undefined;
  /** Not a setting as the others: no archive may open a project to the jobs of other projects. */
  readonly ci_inbound_job_token_scope_enabled?: boolean | undefined;
  /** Gives the caches of its jobs other keys, so that jobs no longer find what earlier ones stored. */
  readonly clear_runner_caches?: boolean | undefined;
}

/**
 * Creates the project with its bare repository. Adds a first commit if a readme is requested.
 *
 * @throws DomainError `not_found` (Namespace), `forbidden` if the caller may not create projects there, `invalid`
 */
export const createProject = async (ctx: Context, input: NewProject): Promise<ProjectRow> => {
  if (ctx.actor.userId === null) throw unauthenticated();
  const namespace = await targetNamespace(ctx, input.namespace ?? null);
  requireGroupAbility(ctx, namespace, 'create_projects');
  const { name, path } = nameAndPath(input);
  const visibility_level = await allowedVisibility(ctx, namespace, input.visibility ?? null);
  const default_branch = input.default_branch || (await initialBranch(ctx, namespace));
  const settings = await getSettings(ctx);
  checkBranchName(default_branch);
  checkStorage(ctx, input.repository_storage);
  requireArtifactsLimit(ctx, input);
  checkLabel(ctx, input.external_authorization_classification_label);
  const avatar_key = input.avatar ? await storeAvatar(ctx, input.avatar) : null;
  const source = await sourceOf(ctx, input);
  return withNewRepository(ctx, async (tx, init) => {
    const place = await lockPlaceFor(tx, namespace, 'create_projects');
    requireRunnersAllowed(place, input.shared_runners_enabled);
    const shared_runners_enabled = input.shared_runners_enabled ?? enabledByDefault(place, settings);
    await checkLimit(tx, namespace);
    const { id, disk_path } = await insertProject(tx, {
      namespace,
      creator_id: namespace.kind === 'user' && ctx.actor.isAdmin ? namespace.owner_id : ctx.actor.userId,
      name,
      path,
      visibility_level,
      default_branch,
      avatar_key,
      max_artifacts_size: input.max_artifacts_size,
      attributes: { ...settingsOf(tx, null, input), shared_runners_enabled },
      import_type: source?.import_type ?? null,
      import_url: source?.shown ?? null,
      unprotected: source !== null,
    });
    await init(disk_path, default_branch);
    const created = await getProject(tx, { id });
    tx.emit(projectCreated, { ...about(created), payload: await payloadOf(tx, created) });
    if (!source && !input.initialize_with_readme) return created;
    await (source ? source.begin(tx, created) : commitReadme(tx, created));
    return getProject(tx, { id });
  });
};

/**
 * Changes settings, name, path, visibility and default branch.
 *
 * @throws DomainError `forbidden`, `invalid`, `bad_request` if the default branch does not exist
 */
export const updateProject = async (ctx: Context, given: ProjectRow, input: ProjectChanges): Promise<ProjectRow> => {
  requireAbility(ctx, given, 'update_settings');
  if (input.name !== undefined || input.path !== undefined) requireAbility(ctx, given, 'rename_project');
  checkNameAndPath(input);
  checkStorage(ctx, input.repository_storage);
  requireArtifactsLimit(ctx, input);
  checkLabel(ctx, input.external_authorization_classification_label);
  const avatar_key = input.avatar ? await storeAvatar(ctx, input.avatar) : input.avatar;
  return ctx.transaction(async (tx) => {
    const level = input.visibility === undefined ? given.visibility_level : visibilityLevel(input.visibility);
    if (level !== given.visibility_level) await lockForks(tx);
    // Lock the namespace before the project, as all writers do: the project's path depends on it.
    const place = await lockNamespace(tx, given.namespace_id);
    const before = await lockProject(tx, given.id);
    if (!place || place.id !== before.namespace_id) throw conflict();
    requireAbility(tx, before, 'update_settings');
    const wanted = await wantedColumns(tx, input, { given, before, place, level, avatar_key });
    const changes = differences(before, wanted);
    if (Object.keys(changes).length === 0) return before;
    if (changes.avatar_key) removeAvatar(tx, before.avatar_key);
    await tx.db
      .updateTable('projects')
      .set({ ...wanted, updated_at: sql`now()` })
      .where('id', '=', before.id)
      .execute()
      .catch(asTaken);
    if (wanted.full_path !== undefined) await redirect(tx, before, String(wanted.full_path));
    if (level > before.visibility_level) await raiseCeilings(tx, before, level);
    if (level < before.visibility_level) await closeForks(tx, before, level);
    const after = await getProject(tx, { id: before.id });
    const shown = visibleChanges(changes, before, after);
    tx.emit(projectUpdated, { ...about(after), payload: { ...(await payloadOf(tx, after)), changes: shown } });
    // Last, because it cannot be rolled back. If the commit fails, the next change restores the row's branch.
    if (wanted.default_branch !== undefined)
      await tx.services.git.setHead(before.disk_path, String(wanted.default_branch));
    return after;
  });
};

interface Updating {
  /** The project as it was when the request came. */
  readonly given: ProjectRow;
  /** The project as it is now. */
  readonly before: ProjectRow;
  readonly place: TreePosition;
  /** The wanted visibility, or that of `given`. */
  readonly level: number;
  /** The stored avatar. Null removes it, undefined leaves it. */
  readonly avatar_key: string | null | undefined;
}

/** Returns the columns that the input names, whether they differ or not. @throws DomainError as `updateProject` */
const wantedColumns = async (
  tx: Tx,
  input: ProjectChanges,
  { given, before, place, level, avatar_key }: Updating,
): Promise<Record<string, unknown>> => {
  requireRunnersAllowed(place, input.shared_runners_enabled);
  const wanted: Record<string, unknown> = { ...columnsOf(settingsOf(tx, before, input)) };
  if (avatar_key !== undefined) wanted.avatar_key = avatar_key;
  if (input.name !== undefined) wanted.name = input.name;
  if (input.max_artifacts_size !== undefined) wanted.max_artifacts_size = input.max_artifacts_size;
  if (input.ci_inbound_job_token_scope_enabled !== undefined) {
    wanted.ci_inbound_job_token_scope_enabled = input.ci_inbound_job_token_scope_enabled;
  }
  if (input.clear_runner_caches) wanted.jobs_cache_index = before.jobs_cache_index + 1;
  if (input.visibility !== undefined && level !== before.visibility_level) {
    requireAbility(tx, before, 'change_visibility');
    if (before.visibility_level !== given.visibility_level)
      throw conflict('The visibility was changed by another request; try again');
    requireWithin(await visibilityLimit(tx, before), level);
    wanted.visibility_level = await allowedVisibility(tx, place, input.visibility);
  }
  if (input.path !== undefined && input.path !== before.path) {
    wanted.path = input.path;
    wanted.full_path = `${place.full_path}/${input.path}`;
  }
  if (wanted.name !== undefined || wanted.path !== undefined) {
    await checkFree(tx, {
      id: before.id,
      namespace_id: place.id,
      name: input.name ?? before.name,
      full_path: `${place.full_path}/${input.path ?? before.path}`,
    });
  }
  if (input.default_branch !== undefined && input.default_branch !== before.default_branch) {
    await checkDefaultBranch(tx, before, input.default_branch);
    wanted.default_branch = input.default_branch;
  }
  return wanted;
};

/**
 * Archives or unarchives the project. An archived project is read-only. Repeating the call changes nothing. @throws
 * DomainError `forbidden`
 */
export const setArchived = async (ctx: Context, given: ProjectRow, archived: boolean): Promise<ProjectRow> => {
  requireAbility(ctx, given, 'archive_project');
  return ctx.transaction(async (tx) => {
    const before = await lockProject(tx, given.id);
    requireAbility(tx, before, 'archive_project');
    if (before.archived === archived) return before;
    await tx.db.updateTable('projects').set({ archived, updated_at: sql`now()` }).where('id', '=', before.id).execute();
    const after = await getProject(tx, { id: before.id });
    const payload = await payloadOf(tx, after);
    tx.emit(archived ? projectArchived : projectUnarchived, { ...about(after), payload });
    return after;
  });
};

/**
 * Returns the namespace for a new project: the requested one, or the caller's own.
 *
 * @throws DomainError `not_found` (Namespace)
 */
export const targetNamespace = async (ctx: Context, wanted: IdOrPath | null): Promise<NamespaceRow> => {
  if (wanted) return getNamespace(ctx, wanted);
  const own = await personalNamespaceId(ctx, ctx.actor.userId);
  if (own === null) throw notFound('Namespace');
  return getNamespace(ctx, { id: own });
};

/** Returns a user's personal namespace, for administrators who create projects for others. @throws DomainError */
export const namespaceOfUser = async (ctx: Context, userId: number): Promise<IdOrPath> => {
  if (!ctx.actor.isAdmin) throw forbidden();
  const id = await personalNamespaceId(ctx, userId);
  if (id === null) throw notFound('User');
  return { id };
};

const nameAndPath = ({ name, path }: NewProject): { name: string; path: string } => {
  const given = { name: name?.trim() || undefined, path: path || undefined };
  if (given.name === undefined && given.path === undefined) throw badRequest('name or path is missing');
  const chosen = { name: given.name ?? given.path ?? '', path: given.path ?? pathFromName(given.name ?? '') };
  checkNameAndPath(chosen);
  return chosen;
};

/** Returns the settings in the input as column values. */
const settingsOf = (tx: Tx, before: ProjectRow | null, input: NewProject | ProjectChanges): ProjectAttributes => {
  const settings = projectAttributes.parse(input);
  const container_expiration_policy = nextPolicy(
    tx.clock.now(),
    before?.container_expiration_policy ?? null,
    settings.container_expiration_policy,
    input.container_expiration_policy_attributes,
  );
  return { ...settings, container_expiration_policy };
};

/** There is one storage, which only administrators may name. @throws DomainError `forbidden`, `invalid` */
export const checkStorage = (ctx: Context, storage: string | undefined): void => {
  if (storage === undefined) return;
  if (!ctx.actor.isAdmin) throw forbidden();
  if (storage !== 'default') throw invalid({ repository_storage: ['is not included in the list'] });
};

/** A project must stay open to the caller. @throws `invalid` if an external service does not open the label to them */
const checkLabel = ({ actor }: Pick<Context, 'actor'>, label: string | undefined): void => {
  if (label === undefined || actor.openLabels === undefined || actor.openLabels.includes(labelDigest(label))) return;
  throw invalid({ external_authorization_classification_label: ['is not a label that is open to you'] });
};

/** Only administrators set the maximum size of artifacts. @throws `forbidden` */
const requireArtifactsLimit = (ctx: Context, { max_artifacts_size }: BeyondSettings): void => {
  if (max_artifacts_size !== undefined && !ctx.actor.isAdmin) throw forbidden();
};

/** Checks the import source. An imported repository brings its own content and its own default branch. */
const sourceOf = async (ctx: Context, input: NewProject): Promise<CheckedSource | null> => {
  if (!input.import_url) return null;
  if (input.initialize_with_readme) throw invalid({ import_url: ["can't be combined with initialize_with_readme"] });
  if (input.default_branch) throw invalid({ import_url: ["can't be combined with default_branch"] });
  return checkImportSource(ctx, input.import_url);
};

const checkBranchName = (branch: string): void => {
  if (!validRefName(branch)) throw invalid({ default_branch: ['is invalid'] });
};

/** An empty repository accepts any branch name. Otherwise the branch must exist. */
const checkDefaultBranch = async (tx: Tx, project: ProjectRow, branch: string): Promise<void> => {
  checkBranchName(branch);
  const { git } = tx.services;
  if (await git.resolve(project.disk_path, `refs/heads/${branch}`)) return;
  if (!(await git.isEmpty(project.disk_path))) {
    throw invalid({ base: [`Could not change HEAD: branch '${branch}' does not exist`] });
  }
};

/**
 * Checks how many projects the owner of a personal namespace may have. It counts under a lock on the owner, so that two
 * concurrent requests cannot both take the last place.
 */
export const checkLimit = async (tx: Tx, namespace: NamespaceRow): Promise<void> => {
  if (namespace.kind !== 'user' || namespace.owner_id === null) return;
  const { rows } = await sql<{ projects_limit: number; used: number }>`
    with owner as (select projects_limit from users where id = ${namespace.owner_id} for no key update)
    select projects_limit, (select count(*) from projects where namespace_id = ${namespace.id}) as used from owner`.execute(
    tx.db,
  );
  const [found] = rows;
  if (found && found.used >= found.projects_limit) {
    throw invalid({
      limit_reached: [
        `Your project limit is ${found.projects_limit} projects! Please contact your administrator to increase it`,
      ],
    });
  }
};

/** Redirects the old path to the project. A redirect that used the new path is removed. */
export const redirect = async (tx: Tx, before: ProjectRow, path: string): Promise<void> => {
  await forgetRedirect(tx, path);
  if (before.full_path.toLowerCase() === path.toLowerCase()) return;
  await tx.db
    .insertInto('redirects')
    .values({ path: before.full_path.toLowerCase(), project_id: before.id })
    .onConflict((conflict) => conflict.column('path').doUpdateSet({ project_id: before.id, namespace_id: null }))
    .execute();
};

/** Returns the scope and the subject of the project's events. */
export const about = (project: ProjectRow) => ({
  ...projectScope(project),
  subject: { type: 'Project', id: project.id },
});

/**
 * Returns the project as event payload, with the owners for hook bodies. @throws DomainError `not_found` if it no
 * longer exists
 */
export const payloadOf = async (tx: Tx, { id }: Pick<ProjectRow, 'id'>): Promise<ProjectPayload> => {
  const [found] = await describeProjects(tx, { projectIds: [id] });
  if (!found) throw notFound('Project');
  return found.payload;
};
