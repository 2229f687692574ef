import {
  type DocumentNode,
  type FieldNode,
  type FragmentDefinitionNode,
  GraphQLError,
  type OperationDefinitionNode,
  type SelectionSetNode,
} from 'graphql';

/** Everything a query is limited by, before any of it runs. Explained in docs/graphql-limits.md. */
export const LIMITS = {
  /** Bytes of a request body, or of a WebSocket message. */
  bodyBytes: 1_000_000,
  /** Characters of one document. */
  textLength: 100_000,
  tokens: 4_000,
  /** Operations in one array. */
  batch: 10,
  depth: 25,
  aliases: 60,
  directives: 50,
  /** Fields beside each other at the top. */
  rootFields: 30,
  /** Fields after fragments are written out. */
  fields: 5_000,
  /** Pairs of fields with one name beside each other: each is compared with each other when validating. */
  repeatedPairs: 10_000,
  /** Rows asked for: page sizes multiplied through nested connections (cost.ts). */
  nodes: 10_000,
  /** Operations running at once on one WebSocket. */
  operationsPerSocket: 100,
} as const;

export const limitError = (message: string): GraphQLError =>
  new GraphQLError(message, { extensions: { code: 'QUERY_LIMIT_EXCEEDED' } });

/**
 * Refuses a document by its shape alone, in time linear to its length (and `LIMITS.fields`): rules that compare
 * fields with fields may run afterwards without harm.
 * @throws GraphQLError naming the limit
 */
export const checkShape = (document: DocumentNode): void => {
  const fragments = new Map<string, FragmentDefinitionNode>();
  const operations: OperationDefinitionNode[] = [];
  for (const definition of document.definitions) {
    if (definition.kind === 'FragmentDefinition') fragments.set(definition.name.value, definition);
    else if (definition.kind === 'OperationDefinition') operations.push(definition);
  }
  const sizeOf = sizes(fragments);
  for (const operation of operations) {
    const size = sizeOf(operation.selectionSet, 1);
    size.directives += operation.directives?.length ?? 0;
    for (const name of ['fields', 'aliases', 'directives', 'depth'] as const) {
      if (size[name] > LIMITS[name]) throw limitError(`The query exceeds the limit of ${LIMITS[name]} ${NOUNS[name]}`);
    }
    checkRepeats(operation, fragments);
  }
};

const NOUNS = { fields: 'fields', aliases: 'aliases', directives: 'directives', depth: 'levels of depth' };

interface Size {
  fields: number;
  aliases: number;
  directives: number;
  depth: number;
}

/** Sizes with fragments written out; each fragment is measured once. */
const sizes = (fragments: ReadonlyMap<string, FragmentDefinitionNode>) => {
  const known = new Map<string, Size | 'measuring'>();

  const fragmentSize = (name: string, level: number): Size => {
    const found = known.get(name);
    if (found === 'measuring') throw limitError(`Cannot spread fragment "${name}" within itself`);
    if (found) return found;
    const fragment = fragments.get(name);
    if (!fragment) return { fields: 0, aliases: 0, directives: 0, depth: 0 };
    known.set(name, 'measuring');
    const size = measure(fragment.selectionSet, level);
    size.directives += fragment.directives?.length ?? 0;
    known.set(name, size);
    return size;
  };

  const measure = (set: SelectionSetNode, level: number): Size => {
    // Also keeps this recursion itself short.
    if (level > LIMITS.depth * 4) throw limitError(`The query exceeds the limit of ${LIMITS.depth} levels of depth`);
    const total: Size = { fields: 0, aliases: 0, directives: 0, depth: 0 };
    for (const node of set.selections) {
      total.directives += node.directives?.length ?? 0;
      let below: Size | null = null;
      let own = 0;
      if (node.kind === 'Field') {
        own = 1;
        total.fields += 1;
        if (node.alias) total.aliases += 1;
        below = node.selectionSet ? measure(node.selectionSet, level + 1) : null;
      } else {
        below =
          node.kind === 'InlineFragment'
            ? measure(node.selectionSet, level + 1)
            : fragmentSize(node.name.value, level + 1);
      }
      total.fields += below?.fields ?? 0;
      total.aliases += below?.aliases ?? 0;
      total.directives += below?.directives ?? 0;
      total.depth = Math.max(total.depth, own + (below?.depth ?? 0));
    }
    return total;
  };
  return measure;
};

/** Walks the query as execution would merge it, counting fields of one name beside each other. */
const checkRepeats = (
  operation: OperationDefinitionNode,
  fragments: ReadonlyMap<string, FragmentDefinitionNode>,
): void => {
  let pairs = 0;
  const walk = (sets: readonly SelectionSetNode[], isRoot: boolean): void => {
    const byKey = new Map<string, FieldNode[]>();
    const collect = (set: SelectionSetNode): void => {
      for (const node of set.selections) {
        if (node.kind === 'Field') {
          const key = node.alias?.value ?? node.name.value;
          const group = byKey.get(key);
          pairs += group?.length ?? 0;
          if (group) group.push(node);
          else byKey.set(key, [node]);
        } else {
          const below = node.kind === 'InlineFragment' ? node : fragments.get(node.name.value);
          if (below) collect(below.selectionSet);
        }
      }
    };
    for (const set of sets) collect(set);
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
