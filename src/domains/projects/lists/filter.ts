import { GUEST, OWNER, type Visibility } from '#domains/access/model.ts';
import type { SlotValues } from '#platform/db/compiled.ts';
import type { SortDirection } from '#platform/paging.ts';
import { isInParts, lacksTrigrams, searchPatterns } from '../search.ts';

export const PROJECT_ORDERS = [
  'id',
  'name',
  'path',
  'created_at',
  'updated_at',
  'last_activity_at',
  'star_count',
  'similarity',
  'repository_size',
  'storage_size',
  'packages_size',
  'wiki_size',
] as const;
export type ProjectOrder = (typeof PROJECT_ORDERS)[number];

/** Selects and orders projects (specification 1 §4.5). Null and absent mean the same. Access rights always apply. */
export interface ProjectFilter {
  readonly ids?: readonly number[] | null | undefined;
  /** The direct forks of this project. */
  readonly forked_from_id?: number | null | undefined;
  readonly full_paths?: readonly string[] | null | undefined;
  /** Projects of this namespace only; with `include_subgroups`, also of all namespaces below it. */
  readonly namespace_id?: number | null | undefined;
  readonly include_subgroups?: boolean | null | undefined;
  /** Also projects shared with the namespace; with `only`, nothing but those. */
  readonly with_shared?: boolean | 'only' | null | undefined;
  readonly archived?: boolean | null | undefined;
  /** Imported by the caller. */
  readonly imported?: boolean | null | undefined;
  readonly include_hidden?: boolean | null | undefined;
  readonly include_pending_delete?: boolean | null | undefined;
  readonly id_after?: number | null | undefined;
  readonly id_before?: number | null | undefined;
  readonly last_activity_after?: string | null | undefined;
  readonly last_activity_before?: string | null | undefined;
  /** Only applies when the order is `updated_at`. */
  readonly updated_after?: string | null | undefined;
  readonly updated_before?: string | null | undefined;
  readonly membership?: boolean | null | undefined;
  readonly owned?: boolean | null | undefined;
  readonly min_access_level?: number | null | undefined;
  readonly starred?: boolean | null | undefined;
  /** Starred by this user, regardless of the caller. */
  readonly starred_by?: number | null | undefined;
  /** Projects to which this user has contributed within the last year. */
  readonly contributed_by?: number | null | undefined;
  /** Only projects in the caller's personal namespace. */
  readonly personal?: boolean | null | undefined;
  readonly search?: string | null | undefined;
  readonly search_namespaces?: boolean | null | undefined;
  /** The project has all of these topics, case-insensitive. */
  readonly topics?: readonly string[] | null | undefined;
  readonly topic_id?: number | null | undefined;
  /** Replaces both: for each topic, the project has one of its spellings (topic-spellings.ts). */
  readonly topic_spellings?: readonly (readonly (string | null)[])[] | null | undefined;
  /** The exact name of a language, case-insensitive, in code that the caller can read. */
  readonly with_programming_language?: string | null | undefined;
  readonly visibility?: Visibility | null | undefined;
  readonly repository_storage?: string | null | undefined;
  readonly with_issues_enabled?: boolean | null | undefined;
  readonly with_merge_requests_enabled?: boolean | null | undefined;
  /** Only projects with security scan reports. Always none, as pipelines do not produce such reports yet. */
  readonly with_security_reports?: boolean | null | undefined;
  /** Only projects whose repository or wiki failed its checksum. Always none, as no copies exist to compare. */
  readonly repository_checksum_failed?: boolean | null | undefined;
  readonly wiki_checksum_failed?: boolean | null | undefined;
  /** Administrators only. The project has all of these attributes with these values. */
  readonly custom_attributes?: Readonly<Record<string, string>> | null | undefined;
  /** The date that the record shows: when the project, or a group above it, was marked. */
  readonly marked_for_deletion_on?: string | null | undefined;
  /** Whether it is marked for deletion, on any day. */
  readonly marked_for_deletion?: boolean | null | undefined;
  /** True: neither archived nor marked for deletion. False: at least one of the two. */
  readonly active?: boolean | null | undefined;
  readonly order_by?: ProjectOrder | null | undefined;
  readonly sort?: SortDirection | null | undefined;
}

/** Only the presence of these filters shapes the statement. Their values go into slots. */
const SLOTS: ReadonlySet<string> = new Set<keyof ProjectFilter>([
  'ids',
  'forked_from_id',
  'full_paths',
  'namespace_id',
  'id_after',
  'id_before',
  'last_activity_after',
  'last_activity_before',
  'updated_after',
  'updated_before',
  'min_access_level',
  'starred_by',
  'contributed_by',
  'search',
  'topics',
  'topic_id',
  'with_programming_language',
  'repository_storage',
  'marked_for_deletion_on',
  'custom_attributes',
]);

/** Drops blank texts from the filter. They select nothing, and must not share a cached statement with other filters. */
export const withoutBlanks = <F extends ProjectFilter>(filter: F): F => {
  const { search, repository_storage, with_programming_language } = filter;
  return {
    ...filter,
    search: search?.trim() || null,
    repository_storage: repository_storage || null,
    with_programming_language: with_programming_language?.trim() || null,
  };
};

/** Returns a key for the parts of the filter that determine the statement's text. */
export const filterShape = (filter: ProjectFilter): string => {
  // A role below Guest grants no access.
  let shape = `${rolesOpen(filter) ? 'held;' : ''}${lacksTrigrams(filter) ? 'pairs;' : ''}${isInParts(filter) ? 'parts;' : ''}`;
  for (const [name, value] of Object.entries(filter)) {
    if (value === null || value === undefined) continue;
    if (name === 'topic_spellings') shape += `${name}=${value.length};`;
    else shape += SLOTS.has(name) ? `${name};` : `${name}=${value};`;
  }
  return shape;
};

/** Returns the values for the slots that `conditions` uses. */
export const filterValues = (filter: ProjectFilter): SlotValues => ({
  ...filter,
  ...Object.fromEntries((filter.topic_spellings ?? []).map((names, index) => [spellingsSlot(index), names])),
  least: leastHeld(filter),
  full_paths: filter.full_paths?.map((path) => path.toLowerCase()),
  custom_attributes: filter.custom_attributes ? JSON.stringify(filter.custom_attributes) : null,
  ...searchPatterns(filter),
});

/** Returns the lowest role that the caller must hold, as a value for the slot `least`; 0 if none is required. */
export const leastHeld = ({ membership, owned, min_access_level }: ProjectFilter): number =>
  Math.max(
    membership ? GUEST : 0,
    owned ? OWNER : 0,
    isGiven(min_access_level) ? Math.max(Number(min_access_level), GUEST) : 0,
  );
/** Returns true if the required role alone lets the caller see the project. */
export const rolesOpen = (filter: ProjectFilter): boolean => leastHeld(filter) >= GUEST;

/** The slot for the spellings of a topic. */
export const spellingsSlot = (index: number): string => `topic_spellings_${index}`;

export const isGiven = (value: unknown): boolean => value !== null && value !== undefined;
