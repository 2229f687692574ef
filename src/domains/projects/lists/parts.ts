import type { Projects } from '#platform/db/tables.ts';
import { attributeNames, type ProjectAttributes } from '../attributes.ts';
import type { EveryProjectPart, ProjectColumns, ProjectNamespace } from '../model.ts';

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
  'max_artifacts_size',
  'jobs_cache_index',
  'hidden',
  'pending_delete',
  'marked_for_deletion_on',
  'imported',
  'import_type',
  'import_url',
  'compliance_frameworks',
  'ci_inbound_job_token_scope_enabled',
  'last_activity_at',
  'created_at',
  'updated_at',
] as const satisfies readonly (keyof Projects)[];

export type ProjectColumn = keyof ProjectColumns;
type Unread = Exclude<ProjectColumn, (typeof ownColumns)[number] | keyof ProjectAttributes>;
/** Does not compile while `ProjectColumns` has a column that is missing here, so that rows hold what their type says. */
export const projectColumns: [Unread] extends [never] ? readonly ProjectColumn[] : Unread = [
  ...ownColumns,
  ...attributeNames,
];

/** The fields of the row that each part fills. */
interface FieldsOfPart extends Readonly<{ [Column in ProjectColumn]: Column }> {
  /** All columns. They come from the row cache (cached-rows.ts). */
  readonly columns: ProjectColumn | 'remembered';
  /** The columns that the settings are made of. */
  readonly settings: keyof ProjectAttributes;
  readonly access_level: 'access_level';
  readonly namespace: 'namespace' | 'namespace_id';
  readonly ns_name: 'namespace';
  readonly ns_path: 'namespace';
  readonly ns_kind: 'namespace';
  readonly ns_full_path: 'namespace';
  readonly ns_full_name: 'namespace';
  readonly ns_visibility_level: 'namespace';
  readonly import: 'import_status' | 'import_error';
  readonly permissions: 'project_access' | 'group_access';
  readonly shared_with_groups: 'shared_with_groups';
  readonly forked_from: 'forked_from';
  readonly owner: 'owner';
  readonly runners_token: 'runners_token';
  readonly statistics: 'statistics';
}

/** The fields of the namespace that each part fills. */
interface NamespaceFieldsOfPart {
  readonly namespace: keyof ProjectNamespace;
  readonly ns_name: 'name';
  readonly ns_path: 'path';
  readonly ns_kind: 'kind';
  readonly ns_full_path: 'full_path';
  readonly ns_full_name: 'full_name';
  readonly ns_visibility_level: 'visibility_level';
}

/** A column, all columns, or a joined or computed part. */
export type ProjectPart = keyof FieldsOfPart;
/** The parts that a query reads of each project. Every row has an id. */
export type ProjectParts = readonly ['id' | 'columns', ...ProjectPart[]];

/**
 * A project with the parts that were read. The type allows access to no other part. It does not know parts that are
 * chosen at run time.
 */
export type ProjectWith<Parts extends ProjectParts> = { readonly id: number } & Filled<KnownPart<Parts>>;

type KnownPart<Parts extends readonly ProjectPart[], Known extends ProjectPart = never> = Parts extends readonly [
  infer First extends ProjectPart,
  ...infer Rest extends readonly ProjectPart[],
]
  ? KnownPart<Rest, Known | First>
  : Known;

type Filled<Part extends ProjectPart> = Pick<EveryProjectPart, Exclude<FieldsOfPart[Part], 'namespace'>> &
  Pick<
    {
      readonly namespace: Pick<
        ProjectNamespace,
        'id' | NamespaceFieldsOfPart[Extract<Part, keyof NamespaceFieldsOfPart>]
      >;
    },
    Extract<FieldsOfPart[Part], 'namespace'>
  >;
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
export const ROW = ['columns', 'access_level', 'namespace', 'import'] as const;
/** The parts of the full REST record. */
export const DETAILS = [...ROW, 'permissions', 'shared_with_groups', 'forked_from'] as const;
/** A project with these, and what else was asked for. */
export type ProjectDetails = ProjectWith<typeof DETAILS> &
  Partial<Pick<EveryProjectPart, 'owner' | 'runners_token' | 'statistics'>>;

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
  'settings',
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

/** Returns the columns that the parts name, each once. */
export const columnsOf = (parts: readonly ProjectPart[]): readonly ProjectPart[] => [
  ...new Set(
    parts.flatMap((part) => (part === 'settings' ? attributeNames : part)).filter((part) => !NO_COLUMNS.has(part)),
  ),
];

/** Returns a key for the parts that determine the text of a statement. */
export const partsShape = (parts: readonly ProjectPart[]): string => parts.join();
