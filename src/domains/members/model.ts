import type { GroupRow } from '#domains/groups/queries.ts';
import { type ProjectRow, projectScope } from '#domains/projects/model.ts';

/** What people are members of: a group or a project. */
export type MemberSource =
  | { readonly kind: 'group'; readonly group: GroupRow }
  | { readonly kind: 'project'; readonly project: ProjectRow };

export const groupSource = (group: GroupRow): MemberSource => ({ kind: 'group', group });
export const projectSource = (project: ProjectRow): MemberSource => ({ kind: 'project', project });

/** Namespaces whose members are members here by inheritance. */
export const ancestorIds = (source: MemberSource): readonly number[] =>
  source.kind === 'group' ? source.group.traversal_ids.slice(0, -1) : source.project.namespace.traversal_ids;

/** The caller's own level. */
export const levelOn = (source: MemberSource): number =>
  source.kind === 'group' ? source.group.access_level : source.project.access_level;

/** Where events of memberships belong. */
export const scopeOf = (source: MemberSource) =>
  source.kind === 'group' ? { namespace_ids: source.group.traversal_ids } : projectScope(source.project);

/** The group or project as events name it. */
export const describedSource = (source: MemberSource) => {
  const { id, name, path, full_path } = source.kind === 'group' ? source.group : source.project;
  return { type: source.kind === 'group' ? ('Group' as const) : ('Project' as const), id, name, path, full_path };
};
