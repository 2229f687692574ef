import {
  type FieldNode,
  type FragmentDefinitionNode,
  GraphQLIncludeDirective,
  type GraphQLResolveInfo,
  GraphQLSkipDirective,
  getDirectiveValues,
  type SelectionNode,
} from 'graphql';
import { walkFields } from './fields.ts';

/** The fields selected below a field, by schema name: `{ id: {}, namespace: { fullName: {} } }`. */
export interface Selection {
  readonly [field: string]: Selection;
}

/**
 * Returns the selection below the current field. Resolves fragments, aliases (two uses of a field are merged), `@skip`
 * and `@include`. With `path`, returns the selection below that field: `selectedFields(info, 'nodes')`. Cached per
 * document.
 */
export const selectedFields = (info: GraphQLResolveInfo, ...path: readonly string[]): Selection =>
  path.reduce<Selection>((selection, name) => selection[name] ?? NOTHING, selectionOf(info, info.fieldNodes));

/** Returns the selection of a connection's rows, through `nodes` or `edges { node }`. */
export const selectedNodes = (info: GraphQLResolveInfo): Selection => nodesOf(selectedFields(info));

/** Like `selectedNodes`, for a connection further down: `nodesOf(selection.projects)`. */
export const nodesOf = (connection: Selection | undefined): Selection => {
  const nodes = connection?.nodes;
  const edgeNodes = connection?.edges?.node;
  return nodes && edgeNodes ? merged(nodes, edgeNodes) : (nodes ?? edgeNodes ?? NOTHING);
};

const NOTHING: Selection = Object.freeze({});

interface Entry {
  readonly nodes: readonly FieldNode[];
  readonly selection: Selection;
}

type Entries = WeakMap<FieldNode, Entry[]>;

// Documents are cached by their text, so their nodes outlive a request and their selections can be cached too.
const ofDocuments: Entries = new WeakMap();
// With `@skip` or `@include` on variables, the selection is valid for one request only.
const ofRequests = new WeakMap<object, Entries>();
const MAX_ENTRIES = 64;

const selectionOf = (info: GraphQLResolveInfo, nodes: readonly FieldNode[]): Selection => {
  const [first] = nodes;
  if (!first) return NOTHING;
  const known = findEntry(ofDocuments, first, nodes) ?? findEntry(ofRequests.get(info.variableValues), first, nodes);
  if (known) return known.selection;

  const walk: Walk = { info, conditional: false };
  const selection = collect(walk, nodes);
  let entries = ofDocuments;
  if (walk.conditional) {
    entries = ofRequests.get(info.variableValues) ?? new WeakMap();
    ofRequests.set(info.variableValues, entries);
  }
  const others = entries.get(first) ?? [];
  if (others.length < MAX_ENTRIES) entries.set(first, [...others, { nodes: [...nodes], selection }]);
  return selection;
};

const findEntry = (entries: Entries | undefined, first: FieldNode, nodes: readonly FieldNode[]): Entry | undefined =>
  entries
    ?.get(first)
    ?.find((entry) => entry.nodes.length === nodes.length && entry.nodes.every((node, i) => node === nodes[i]));

interface Walk {
  readonly info: GraphQLResolveInfo;
  conditional: boolean;
}

const collect = (walk: Walk, parents: readonly FieldNode[]): Selection => {
  const byName = new Map<string, FieldNode[]>();
  walkFields(
    parents.flatMap((parent) => parent.selectionSet ?? []),
    {
      fragmentOf: (spread) => walk.info.fragments[spread.name.value],
      includes: (node) => isIncluded(walk, node),
      visit: (node) => {
        const name = node.name.value;
        const group = byName.get(name);
        if (group) group.push(node);
        else byName.set(name, [node]);
      },
    },
  );
  const selection: Record<string, Selection> = {};
  for (const [name, nodes] of byName) selection[name] = collect(walk, nodes);
  return selection;
};

const isIncluded = (walk: Walk, node: SelectionNode | FragmentDefinitionNode): boolean => {
  if (node.kind === 'FragmentDefinition' || !node.directives?.length) return true;
  walk.conditional = true;
  return (
    getDirectiveValues(GraphQLSkipDirective, node, walk.info.variableValues)?.if !== true &&
    getDirectiveValues(GraphQLIncludeDirective, node, walk.info.variableValues)?.if !== false
  );
};

const merged = (a: Selection, b: Selection): Selection => {
  const result: Record<string, Selection> = { ...a };
  for (const [name, below] of Object.entries(b)) {
    const other = result[name];
    result[name] = other ? merged(other, below) : below;
  }
  return result;
};
