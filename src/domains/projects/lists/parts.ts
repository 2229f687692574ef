import type { Projects } from '#platform/db/tables.ts';
import { attributeNames } from '../attributes.ts';
import type { ProjectColumns } from '../model.ts';

/** Columns that the hub itself writes. The settings follow from attributes.ts. */
const ownColumns = [
  'id',
  'namespace_id',
  'creator_id',
  'name',
  'path',
  'full_path',
  'visibility_level',
  'disk_path',
  'default_branch',
  'avatar_key',
  'archived',
  'star_count',
  'forks_count',
  'forked_from_id',
  'fork_network_id',
  'open_issues_count',
  'empty_repo',
  'readme_path',
  'repository_storage',
  'hidden',
  'pending_delete',
  'marked_for_deletion_on',
  'imported',
  'import_type',
  'import_url',
  'compliance_frameworks',
  'last_activity_at',
  'created_at',
  'updated_at',
] as const satisfies readonly (keyof Projects)[];

export type ProjectColumn = keyof ProjectColumns;
export const projectColumns: readonly ProjectColumn[] = [...ownColumns, ...attributeNames];

/** A column, all columns, or a joined or computed part. */
export type ProjectPart =
  | ProjectColumn
  | 'columns'
  | 'access_level'
  | 'namespace'
  | NamespacePart
  | 'import'
  | DetailPart;
/** One column of the namespace, for callers who do not need the others. */
export type NamespacePart = (typeof namespaceParts)[number];
export type DetailPart =
  | 'permissions'
  | 'shared_with_groups'
  | 'forked_from'
  | 'owner'
  | 'runners_token'
  | 'statistics';

/** The parts of a whole `ProjectRow`. */
export const ROW: readonly ProjectPart[] = ['columns', 'access_level', 'namespace', 'import'];
export const DETAILS: readonly ProjectPart[] = [...ROW, 'permissions', 'shared_with_groups', 'forked_from'];

export const namespaceParts = [
  'ns_name',
  'ns_path',
  'ns_kind',
  'ns_full_path',
  'ns_full_name',
  'ns_visibility_level',
] as const;

export const wantsNamespace = (wanted: ReadonlySet<ProjectPart>): boolean =>
  wanted.has('namespace') || namespaceParts.some((part) => wanted.has(part));

const NO_COLUMNS: ReadonlySet<string> = new Set<ProjectPart>([
  ...namespaceParts,
  'columns',
  'access_level',
  'namespace',
  'import',
  'permissions',
  'shared_with_groups',
  'forked_from',
  'owner',
  'runners_token',
  'statistics',
]);

export const isColumn = (part: ProjectPart): boolean => !NO_COLUMNS.has(part);

const shapes = new WeakMap<readonly ProjectPart[], string>();
/** Returns a key for the parts that determine the text of a statement. */
export const partsShape = (parts: readonly ProjectPart[]): string => {
  const shape = shapes.get(parts) ?? parts.join();
  shapes.set(parts, shape);
  return shape;
};
