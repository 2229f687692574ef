import { GUEST } from '#domains/access/model.ts';
import { requireGroupAbility } from '#domains/groups/policy.ts';
import { type GroupRow, getGroup } from '#domains/groups/queries.ts';
import { type ProjectRow, projectScope } from '#domains/projects/model.ts';
import { requireAbility } from '#domains/projects/policy.ts';
import { getProject } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import type { IdOrPath } from '#platform/id-or-path.ts';

/** What labels, milestones, hooks, push rules and attached files belong to: a group, for everything below it, or one project. */
export type Place =
  | { readonly kind: 'group'; readonly group: GroupRow }
  | { readonly kind: 'project'; readonly project: ProjectRow };

export type PlaceKind = Place['kind'];

type PlaceAbility =
  | 'read_label'
  | 'admin_label'
  | 'read_milestone'
  | 'admin_milestone'
  | 'admin_hook'
  | 'admin_push_rule'
  | 'upload_file'
  | 'admin_uploads';

/** The group or project as far as the caller may know of it. @throws DomainError `not_found` (Group, Project) */
export const getPlace = async (ctx: Context, kind: PlaceKind, id: IdOrPath): Promise<Place> =>
  kind === 'group' ? { kind, group: await getGroup(ctx, id) } : { kind: 'project', project: await getProject(ctx, id) };

/** @throws DomainError `not_found` where that part of a project is hidden, `unauthenticated`, `forbidden` */
export const requirePlaceAbility = (ctx: Context, place: Place, ability: PlaceAbility): void => {
  if (place.kind === 'project') requireAbility(ctx, place.project, ability);
  // Whoever may know of a group may read what it lends to its projects.
  else if (ability !== 'read_label' && ability !== 'read_milestone') requireGroupAbility(ctx, place.group, ability);
};

/** The columns that say whose a label or milestone is. */
export const ownerColumns = (place: Place) =>
  place.kind === 'group'
    ? { project_id: null, namespace_id: place.group.id }
    : { project_id: place.project.id, namespace_id: null };

/** The namespaces above, from which it inherits; the group itself is not among its own. */
export const ancestorIds = (place: Place): readonly number[] =>
  place.kind === 'group' ? place.group.traversal_ids.slice(0, -1) : place.project.namespace.traversal_ids;

/** Where events of labels and milestones belong, and who may see them. */
export const placeScope = (place: Place) => {
  if (place.kind === 'group')
    return { namespace_ids: place.group.traversal_ids, visibility_level: place.group.visibility_level };
  const { project } = place;
  const isOpen = project.issues_access_level === 'enabled' || project.merge_requests_access_level === 'enabled';
  return { ...projectScope(project), min_access_level: isOpen ? null : GUEST };
};
