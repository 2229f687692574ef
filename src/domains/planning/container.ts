import { GUEST } from '#domains/access/model.ts';
import { lockGroupFor } from '#domains/groups/locks.ts';
import { requireGroupAbility } from '#domains/groups/policy.ts';
import { type GroupRow, getGroup } from '#domains/groups/queries.ts';
import { lockProjectFor } from '#domains/projects/locks.ts';
import { type ProjectRow, projectScope } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import { getProject } from '#domains/projects/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { badRequest } from '#platform/errors.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';

/**
 * The owner of labels, milestones, hooks, push rules, approval rules and uploads: a group, for everything below it, or a single
 * project.
 */
export type Container =
  | { readonly kind: 'group'; readonly group: GroupRow }
  | { readonly kind: 'project'; readonly project: ProjectRow };

export type ContainerKind = Container['kind'];

/** A group or project as callers name it. */
export interface ContainerAddress {
  readonly kind: ContainerKind;
  readonly id: IdOrPath;
}

/** The owner of hooks and variables, which the instance can have too. */
export type ContainerOrInstance = Container | { readonly kind: 'instance' };
export type OwnerAddress = ContainerAddress | { readonly kind: 'instance' };

type ContainerAbility =
  | 'read_label'
  | 'admin_label'
  | 'read_milestone'
  | 'admin_milestone'
  | 'admin_hook'
  | 'admin_push_rule'
  | 'admin_cicd_variables'
  | 'admin_approval_rule'
  | 'upload_file'
  | 'admin_uploads';

/** Returns the group or project if the caller can see it. @throws DomainError `not_found` (Group, Project) */
export const getContainer = async (ctx: Context, kind: ContainerKind, id: IdOrPath): Promise<Container> =>
  kind === 'group' ? { kind, group: await getGroup(ctx, id) } : { kind: 'project', project: await getProject(ctx, id) };

/** Returns the owner of a label or milestone if the caller can see it. @throws DomainError `not_found` (Group, Project) */
export const getOwner = (
  ctx: Context,
  { project_id, namespace_id }: { readonly project_id: number | null; readonly namespace_id: number | null },
): Promise<Container> =>
  project_id === null
    ? getContainer(ctx, 'group', { id: namespace_id ?? 0 })
    : getContainer(ctx, 'project', { id: project_id });

/**
 * Returns the group or project with this path. @throws DomainError `bad_request` unless one path is given, `not_found`
 * (Group, Project)
 */
export const getContainerByPath = async (
  ctx: Context,
  projectPath: string | null | undefined,
  groupPath: string | null | undefined,
): Promise<Container> => {
  if (projectPath != null && groupPath == null) return getContainer(ctx, 'project', { path: projectPath });
  if (groupPath != null && projectPath == null) return getContainer(ctx, 'group', { path: groupPath });
  throw badRequest('either projectPath or groupPath is required');
};

/**
 * Returns the group that a project is directly in.
 *
 * @throws DomainError `bad_request` for a project of a user, `not_found` if the caller cannot see the group
 */
export const groupOf = async (ctx: Context, project: ProjectRow): Promise<Extract<Container, { kind: 'group' }>> => {
  if (project.namespace.kind !== 'group') throw badRequest('the project is not in a group');
  return { kind: 'group', group: await getGroup(ctx, { id: project.namespace.id }) };
};

/** @throws DomainError `not_found` if the feature of the project is hidden, `unauthenticated`, `forbidden` */
export const requireContainerAbility = (ctx: Context, container: Container, ability: ContainerAbility): void => {
  if (container.kind === 'project') requireAbility(ctx, container.project, ability);
  // Everyone who can see a group can read its labels and milestones.
  else if (ability !== 'read_label' && ability !== 'read_milestone') requireGroupAbility(ctx, container.group, ability);
};

/**
 * Locks the group or project until the transaction ends, and returns its current row if the caller still has the
 * ability: they may have lost their role since it was read.
 *
 * @throws DomainError `not_found` (Group, Project), `unauthenticated`, `forbidden`
 */
export const lockContainer = async (
  tx: Tx,
  given: Container,
  ability: Exclude<ContainerAbility, 'read_label' | 'read_milestone'>,
): Promise<Container> =>
  given.kind === 'group'
    ? { kind: 'group', group: await lockGroupFor(tx, given.group, ability) }
    : { kind: 'project', project: await lockProjectFor(tx, given.project, ability) };

/** Returns the owner columns of a label or milestone. */
export const ownerColumns = (container: Container) =>
  container.kind === 'group'
    ? { project_id: null, namespace_id: container.group.id }
    : { project_id: container.project.id, namespace_id: null };

/** Returns the namespaces that the container inherits from. A group does not include itself. */
export const ancestorIds = (container: Container): readonly number[] =>
  container.kind === 'group' ? container.group.traversal_ids.slice(0, -1) : container.project.namespace.traversal_ids;

/** Returns the scope and audience of label and milestone events. */
export const containerScope = (container: Container) => {
  if (container.kind === 'group')
    return { namespace_ids: container.group.traversal_ids, visibility_level: container.group.visibility_level };
  const { project } = container;
  const isOpen = project.issues_access_level === 'enabled' || project.merge_requests_access_level === 'enabled';
  return { ...projectScope(project), min_access_level: isOpen ? null : GUEST };
};
