import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  type FragmentSpreadNode,
  GraphQLError,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from 'graphql';
import { keyOf, walkFields } from './fields.ts';

/** All limits on a query, checked before any of it runs. See docs/graphql-limits.md. */
export const LIMITS = {
  /** Bytes of a request body, or of a WebSocket message. */
  bodyBytes: 1_000_000,
  /** Bytes of a body that is not JSON: a form or a plain query. */
  formBytes: 200_000,
  /** Limits on the JSON of a request body or a WebSocket message. */
  json: { values: 20_000, depth: 64 },
  /** Characters of one document. */
  textLength: 100_000,
  tokens: 4_000,
  /** Operations in one array. */
  batch: 10,
  depth: 25,
  aliases: 60,
  directives: 50,
  /** Fields at the top level. */
  rootFields: 30,
  /** Fields of one operation after fragment expansion. */
  fields: 5_000,
  /** Fields, spreads and inline fragments of all operations after fragment expansion. */
  selections: 10_000,
  /** Pairs of sibling fields with the same response key. Validation compares each such pair. */
  repeatedPairs: 10_000,
  /** Requested rows: page sizes multiplied through nested connections (cost.ts). */
  nodes: 10_000,
  /**
   * Fields of all requested rows. `valuesInOneGo` applies to graphql's own executor, which is slower and blocks the
   * event loop until it is done (executor.ts).
   */
  values: 400_000,
  valuesInOneGo: 50_000,
  /** Characters of all strings in a response. */
  answerLength: 32 * 1024 * 1024,
  /** Total weight of the cached documents (tokens and expanded selections): about 50 MB. */
  rememberedWeight: 200_000,
  /** Operations running at once on one WebSocket. */
  operationsPerSocket: 100,
} as const;

export const limitError = (message: string): GraphQLError =>
  new GraphQLError(message, { extensions: { code: 'QUERY_LIMIT_EXCEEDED' } });

/** Whether the error is of an exceeded limit, which ends the whole query. */
export const isLimitError = (error: unknown): error is GraphQLError =>
  error instanceof GraphQLError && error.extensions.code === 'QUERY_LIMIT_EXCEEDED';

export const answerTooLong = (): GraphQLError =>
  limitError(`The answer exceeds the limit of ${LIMITS.answerLength} characters: ask for smaller pages`);

/**
 * Refuses a document by its shape. Takes time linear in the length of the document and in `LIMITS.selections`. A
 * document that passes is safe for code that expands fragments, such as graphql's validation rules.
 * @returns the number of selections in all operations after fragment expansion
 * @throws GraphQLError that names the exceeded limit, or the problem with a fragment
 */
export const checkShape = (document: DocumentNode): number => {
  const fragments = fragmentsOf(document);
  const measured = new Map<string, Size | 'measuring'>();
  let selections = 0;
  for (const operation of document.definitions) {
    if (operation.kind !== 'OperationDefinition') continue;
    const size = measure(operation.selectionSet, 1, fragments, measured);
    size.directives += operation.directives?.length ?? 0;
    for (const name of ['fields', 'aliases', 'directives', 'depth'] as const) {
      if (size[name] > LIMITS[name]) throw limitError(`The query exceeds the limit of ${LIMITS[name]} ${NOUNS[name]}`);
    }
    selections += size.selections;
    if (selections > LIMITS.selections)
      throw limitError(`The query exceeds the limit of ${LIMITS.selections} selections after fragment expansion`);
    checkRepeats(operation, fragments);
  }
  // Unused fragments were not measured, but the validation rules would walk them.
  for (const [name, fragment] of fragments) {
    if (!measured.has(name)) throw new GraphQLError(`Fragment "${name}" is never used.`, { nodes: fragment });
  }
  return selections;
};

const NOUNS = { fields: 'fields', aliases: 'aliases', directives: 'directives', depth: 'levels of depth' };

type Fragments = ReadonlyMap<string, FragmentDefinitionNode>;

/** @throws GraphQLError when two fragments have the same name, because only one of them would be measured */
const fragmentsOf = (document: DocumentNode): Fragments => {
  const fragments = new Map<string, FragmentDefinitionNode>();
  for (const definition of document.definitions) {
    if (definition.kind !== 'FragmentDefinition') continue;
    const name = definition.name.value;
    const other = fragments.get(name);
    if (other)
      throw new GraphQLError(`There can be only one fragment named "${name}".`, { nodes: [other, definition] });
    fragments.set(name, definition);
  }
  return fragments;
};

const spreadFragment = (fragments: Fragments, spread: FragmentSpreadNode): FragmentDefinitionNode => {
  const fragment = fragments.get(spread.name.value);
  if (!fragment) throw new GraphQLError(`Unknown fragment "${spread.name.value}".`, { nodes: spread });
  return fragment;
};

interface Size {
  fields: number;
  selections: number;
  aliases: number;
  directives: number;
  depth: number;
}

/** Returns the size after fragment expansion. Measures each fragment once. */
const measure = (
  set: SelectionSetNode,
  level: number,
  fragments: Fragments,
  measured: Map<string, Size | 'measuring'>,
): Size => {
  const sizeOfSpread = (spread: FragmentSpreadNode): Size => {
    const name = spread.name.value;
    const known = measured.get(name);
    if (known === 'measuring') throw limitError(`Cannot spread fragment "${name}" within itself`);
    if (known) return known;
    const fragment = spreadFragment(fragments, spread);
    measured.set(name, 'measuring');
    const size = measure(fragment.selectionSet, level + 1, fragments, measured);
    size.directives += fragment.directives?.length ?? 0;
    measured.set(name, size);
    return size;
  };

  // Also bounds this recursion.
  if (level > LIMITS.depth * 4) throw limitError(`The query exceeds the limit of ${LIMITS.depth} levels of depth`);
  const total: Size = { fields: 0, selections: set.selections.length, aliases: 0, directives: 0, depth: 0 };
  for (const node of set.selections) {
    total.directives += node.directives?.length ?? 0;
    const isField = node.kind === 'Field';
    if (isField) {
      total.fields += 1;
      if (node.alias) total.aliases += 1;
    }
    const below =
      node.kind === 'FragmentSpread'
        ? sizeOfSpread(node)
        : node.selectionSet && measure(node.selectionSet, level + 1, fragments, measured);
    total.fields += below?.fields ?? 0;
    total.selections += below?.selections ?? 0;
    total.aliases += below?.aliases ?? 0;
    total.directives += below?.directives ?? 0;
    total.depth = Math.max(total.depth, (isField ? 1 : 0) + (below?.depth ?? 0));
  }
  return total;
};

/** Walks the query as execution merges it, and counts sibling fields with the same response key. */
const checkRepeats = (operation: OperationDefinitionNode, fragments: Fragments): void => {
  let pairs = 0;
  const walk = (sets: readonly SelectionSetNode[], isRoot: boolean): void => {
    const byKey = new Map<string, FieldNode[]>();
    walkFields(sets, {
      fragmentOf: (spread) => spreadFragment(fragments, spread),
      visit: (node) => {
        const key = keyOf(node);
        const group = byKey.get(key);
        pairs += group?.length ?? 0;
        if (group) group.push(node);
        else byKey.set(key, [node]);
      },
    });
    if (isRoot && byKey.size > LIMITS.rootFields)
      throw limitError(`The query exceeds the limit of ${LIMITS.rootFields} fields at the top`);
    if (pairs > LIMITS.repeatedPairs) throw limitError('The query repeats the same fields too often');
    for (const group of byKey.values()) {
      const below = group.flatMap((node) => node.selectionSet ?? []);
      if (below.length > 0) walk(below, false);
    }
  };
  walk([operation.selectionSet], true);
};
