import type { GroupRow } from '#domains/groups/queries.ts';
import { type ProjectRow, projectScope } from '#domains/projects/model.ts';

/** A group or project that has members. */
export type MemberSource =
  | { readonly kind: 'group'; readonly group: GroupRow }
  | { readonly kind: 'project'; readonly project: ProjectRow };

export const groupSource = (group: GroupRow): MemberSource => ({ kind: 'group', group });
export const projectSource = (project: ProjectRow): MemberSource => ({ kind: 'project', project });

/** Returns the namespaces whose members are inherited here. */
export const ancestorIds = (source: MemberSource): readonly number[] =>
  source.kind === 'group' ? source.group.traversal_ids.slice(0, -1) : source.project.namespace.traversal_ids;

/** Returns the caller's own level. */
export const levelOn = (source: MemberSource): number =>
  source.kind === 'group' ? source.group.access_level : source.project.access_level;

/** Returns the scope of membership events. */
export const scopeOf = (source: MemberSource) =>
  source.kind === 'group'
    ? { namespace_ids: source.group.traversal_ids, visibility_level: source.group.visibility_level }
    : projectScope(source.project);

/** Returns the group or project as events describe it. */
export const sourcePayload = (source: MemberSource) => {
  const { id, name, path, full_path } = source.kind === 'group' ? source.group : source.project;
  return { type: source.kind === 'group' ? ('Group' as const) : ('Project' as const), id, name, path, full_path };
};
