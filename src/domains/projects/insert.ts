import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import { type Visibility, visibilityLevel, visibilityName } from '#domains/access/model.ts';
import type { NamespaceRow } from '#domains/groups/queries.ts';
import { withinGroup } from '#domains/groups/shared-runners.ts';
import { lockNamespace, lockPath, requireUnmarked } from '#domains/groups/tree.ts';
import { highestUnrestricted, requireUnrestricted } from '#domains/groups/visibility.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { brokenConstraint } from '#platform/db/failures.ts';
import { conflict, invalid, notFound, requireValid } from '#platform/errors.ts';
import { toJsonb } from '#platform/values/to-jsonb.ts';
import type { ProjectAttributes } from './attributes.ts';
import { IMPORT_TYPE, RUNNING_IMPORT } from './model.ts';
import { checkNameAndPath } from './path.ts';
import { protectDefaultBranch } from './protection.ts';
import { newRegistrationToken, runnersTokenColumns } from './runners-token.ts';

export interface ProjectInsert {
  readonly namespace: Pick<NamespaceRow, 'id'>;
  readonly creator_id: number | null;
  readonly name: string;
  readonly path: string;
  readonly visibility_level: number;
  readonly default_branch: string;
  readonly avatar_key?: string | null;
  readonly max_artifacts_size?: number | null | undefined;
  readonly attributes: ProjectAttributes;
  readonly import_type?: string | null;
  /** Without credentials. */
  readonly import_url?: string | null;
  /** Leaves the default branch unprotected. Archives carry their own protection, and clones decide their own branch. */
  readonly unprotected?: boolean;
}

export type CounterKind = 'issue' | 'merge_request' | 'milestone' | 'pipeline' | 'deployment';

/**
 * Inserts the rows of a new project. The caller creates the repository at the returned `disk_path`.
 *
 * @throws DomainError `invalid` if the name or path is invalid or taken
 */
export const insertProject = async (tx: Tx, project: ProjectInsert): Promise<{ id: number; disk_path: string }> => {
  const { namespace, name, path } = project;
  checkNameAndPath({ name, path });
  // The namespace may be renamed concurrently. Use its path as of this transaction.
  const place = await lockNamespace(tx, namespace.id);
  if (!place) throw notFound('Namespace');
  await requireUnmarked(tx, place);
  // The namespace may have become less visible after the project's visibility was decided.
  if (place.kind === 'group' && project.visibility_level > place.visibility_level) {
    throw invalid({ visibility_level: [aboveGroup(visibilityName(project.visibility_level), place)] });
  }
  const full_path = `${place.full_path}/${path}`;
  await checkFree(tx, { namespace_id: namespace.id, full_path, name });
  const { rows } = await sql<{ id: number }>`select nextval(pg_get_serial_sequence('projects', 'id')) as id`.execute(
    tx.db,
  );
  const id = rows[0]?.id ?? 0;
  const disk_path = diskPathOf(id);
  await tx.db
    .insertInto('projects')
    .values({
      ...columnsOf(project.attributes),
      shared_runners_enabled: withinGroup(place, project.attributes.shared_runners_enabled),
      id,
      disk_path,
      namespace_id: namespace.id,
      creator_id: project.creator_id,
      name,
      path,
      full_path,
      visibility_level: project.visibility_level,
      default_branch: project.default_branch,
      avatar_key: project.avatar_key ?? null,
      max_artifacts_size: project.max_artifacts_size ?? null,
      imported: (project.import_type ?? null) !== null,
      import_type: project.import_type ?? null,
      import_url: project.import_url ?? null,
      ...runnersTokenColumns(tx.services, newRegistrationToken()),
    })
    .execute()
    .catch(asTaken);
  await tx.db.insertInto('project_statistics').values({ project_id: id }).execute();
  // A new project takes precedence over a redirect from the same path.
  await forgetRedirect(tx, full_path);
  if (!project.unprotected) {
    await protectDefaultBranch(tx, { id, namespace_id: namespace.id }, project.default_branch);
  }
  return { id, disk_path };
};

/** `@hashed/ab/cd/<sha256 of the id>.git`: a rename does not move the repository. */
const diskPathOf = (id: number): string => {
  const digest = createHash('sha256').update(String(id)).digest('hex');
  return `@hashed/${digest.slice(0, 2)}/${digest.slice(2, 4)}/${digest}.git`;
};

/**
 * Reserves `count` consecutive numbers for issues, merge requests and the like, and returns the first.
 *
 * @throws DomainError `conflict` while an archive is imported into the project: its items keep their own numbers
 */
export const nextIid = async (tx: Tx, projectId: number, kind: CounterKind, count = 1): Promise<number> => {
  const { rows } = await sql<{ last_iid: number; has_unfinished_import: boolean }>`
    insert into project_counters (project_id, kind, last_iid)
    values (${projectId}::bigint, ${kind}::text, ${count}::int)
    on conflict (project_id, kind) do update set last_iid = project_counters.last_iid + excluded.last_iid
    returning last_iid, exists (
      select from project_imports where project_id = ${projectId} and import_type = ${IMPORT_TYPE} and status <> 'finished'
    ) as has_unfinished_import`.execute(tx.db);
  const [{ last_iid = count, has_unfinished_import = false } = {}] = rows;
  // The statement may have waited for a retry of the import, which holds the counters, and still see the import as failed.
  if (has_unfinished_import) await requireNoRunningImport(tx, projectId);
  return last_iid - count + 1;
};

/** Reserves the number that the caller wants, and those below it. @throws DomainError as `nextIid` */
export const reserveIid = async (tx: Tx, projectId: number, kind: CounterKind, iid: number): Promise<void> => {
  await raiseIid(tx, projectId, kind, iid);
  await requireNoRunningImport(tx, projectId);
};

/**
 * Call it after the counter is locked: then either this sees a retry of the import, or the retry sees the new number.
 *
 * @throws DomainError `conflict` while an archive is imported into the project
 */
const requireNoRunningImport = async (tx: Tx, projectId: number): Promise<void> => {
  const { rows } = await sql`
    select from project_imports where project_id = ${projectId} and import_type = ${IMPORT_TYPE}
      and status = any (${RUNNING_IMPORT}::text[])`.execute(tx.db);
  if (rows.length > 0) throw conflict('409 Conflict - the project is being imported');
};

/** Raises the counter to at least `lastIid`, after items were inserted with numbers of their own. */
export const raiseIid = async (tx: Tx, projectId: number, kind: CounterKind, lastIid: number): Promise<void> => {
  await sql`
    insert into project_counters (project_id, kind, last_iid) values (${projectId}, ${kind}, ${lastIid})
    on conflict (project_id, kind) do update set last_iid = greatest(project_counters.last_iid, excluded.last_iid)`.execute(
    tx.db,
  );
};

/**
 * Returns the visibility for a project in the namespace: the requested one, or the instance's default limited by the
 * namespace. With `cap`, a requested visibility that is too open is lowered instead of refused (for imports).
 *
 * @throws DomainError `invalid`
 */
export const allowedVisibility = async (
  ctx: Context,
  namespace: Pick<NamespaceRow, 'visibility_level' | 'kind'>,
  wanted: Visibility | null,
  { cap = false }: { readonly cap?: boolean } = {},
): Promise<number> => {
  // Personal namespaces do not limit visibility.
  const highest = namespace.kind === 'user' ? visibilityLevel('public') : namespace.visibility_level;
  const level = visibilityLevel(wanted ?? (await getSettings(ctx)).default_project_visibility);
  if (wanted === null || cap) return highestUnrestricted(ctx, Math.min(level, highest));
  if (level > highest) {
    throw invalid({
      visibility_level: [aboveGroup(visibilityName(level), namespace)],
    });
  }
  await requireUnrestricted(ctx, level);
  return level;
};

const aboveGroup = (visibility: Visibility, group: { readonly visibility_level: number }): string =>
  `${visibility} is not allowed since the group is ${visibilityName(group.visibility_level)}.`;

/** Returns the settings as column values, with JSON for the one that is an object. */
export const columnsOf = ({ container_expiration_policy, ...rest }: ProjectAttributes) => ({
  ...rest,
  ...(container_expiration_policy ? { container_expiration_policy: toJsonb(container_expiration_policy) } : {}),
});

/** @throws DomainError `invalid` if another project has the name or path, or if a group has the path */
export const checkFree = async (
  tx: Tx,
  wanted: { readonly id?: number; readonly namespace_id: number; readonly full_path?: string; readonly name?: string },
): Promise<void> => {
  if (wanted.full_path !== undefined) await lockPath(tx, wanted.full_path);
  const { rows } = await sql<{ name_taken: boolean; path_taken: boolean }>`
    select exists (select 1 from projects where namespace_id = ${wanted.namespace_id}
        and lower(name) = lower(${wanted.name ?? null}::text) and id <> ${wanted.id ?? 0}) as name_taken,
      exists (select 1 from projects where lower(full_path) = lower(${wanted.full_path ?? null}::text) and id <> ${wanted.id ?? 0})
        or exists (select 1 from namespaces where lower(full_path) = lower(${wanted.full_path ?? null}::text)) as path_taken`.execute(
    tx.db,
  );
  const fields: Record<string, readonly string[]> = {};
  if (rows[0]?.name_taken) fields.name = TAKEN;
  if (rows[0]?.path_taken) fields.path = TAKEN;
  requireValid(fields);
};

export const forgetRedirect = async (tx: Tx, path: string): Promise<void> => {
  await tx.db.deleteFrom('redirects').where('path', '=', path.toLowerCase()).execute();
};

const TAKEN = ['has already been taken'];

/** Maps a violation of a unique index by a concurrent request to `invalid`. */
export const asTaken = (error: unknown): never => {
  const constraint = brokenConstraint(error);
  if (constraint === 'projects_full_path') throw invalid({ path: TAKEN });
  if (constraint === 'projects_name') throw invalid({ name: TAKEN });
  throw error;
};
