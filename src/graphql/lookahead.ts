import {
  type FieldNode,
  type FragmentDefinitionNode,
  type GraphQLField,
  GraphQLIncludeDirective,
  type GraphQLNamedType,
  type GraphQLResolveInfo,
  GraphQLSkipDirective,
  getArgumentValues,
  getDirectiveValues,
  getNamedType,
  isInterfaceType,
  isObjectType,
  type SelectionNode,
  type SelectionSetNode,
} from 'graphql';

/** The fields selected below a field, by their names in the schema: `{ id: {}, namespace: { fullName: {} } }`. */
export interface Selection {
  readonly [field: string]: Selection;
}

/** One use of a field: `key` is its alias, or else its name. */
export interface SelectedField {
  readonly key: string;
  readonly args: Readonly<Record<string, unknown>>;
  readonly selection: Selection;
}

/**
 * What is selected below the current field, through fragments, aliases (two uses of a field are merged), `@skip` and
 * `@include`. With `path` what is selected below that: `selectedFields(info, 'nodes')`. Remembered per document.
 */
export const selectedFields = (info: GraphQLResolveInfo, ...path: readonly string[]): Selection =>
  path.reduce<Selection>((selection, name) => selection[name] ?? NOTHING, selectionOf(info, info.fieldNodes));

/** Of a connection field: what is selected of its rows, whether by `nodes` or by `edges { node }`. */
export const selectedNodes = (info: GraphQLResolveInfo): Selection => nodesOf(selectedFields(info));

/** The same for a connection further down: `nodesOf(selection.projects)`. */
export const nodesOf = (connection: Selection | undefined): Selection => {
  const nodes = connection?.nodes;
  const edgeNodes = connection?.edges?.node;
  return nodes && edgeNodes ? merged(nodes, edgeNodes) : (nodes ?? edgeNodes ?? NOTHING);
};

/**
 * Each use of a field further down, with its arguments: `selectedUses(info, ['nodes', 'projects'])`. For fetching a
 * tree in one statement: uses with different arguments need a branch each, found again by `key`.
 */
export const selectedUses = (info: GraphQLResolveInfo, path: readonly string[]): readonly SelectedField[] => {
  let nodes: readonly FieldNode[] = info.fieldNodes;
  let type: GraphQLNamedType = getNamedType(info.returnType);
  for (const [depth, name] of path.entries()) {
    const last = depth === path.length - 1;
    const field: GraphQLField<unknown, unknown> | undefined =
      isObjectType(type) || isInterfaceType(type) ? type.getFields()[name] : undefined;
    if (!field) return [];
    const below = childFields(info, nodes).filter((node) => node.name.value === name);
    if (last) {
      const uses = Map.groupBy(below, (node) => node.alias?.value ?? name);
      return [...uses].map(([key, [first, ...others]]) => ({
        key,
        args: first ? getArgumentValues(field, first, info.variableValues) : {},
        selection: first ? selectionOf(info, [first, ...others]) : NOTHING,
      }));
    }
    nodes = below;
    type = getNamedType(field.type);
  }
  return [];
};

const NOTHING: Selection = Object.freeze({});

interface Entry {
  readonly nodes: readonly FieldNode[];
  readonly selection: Selection;
}

// Documents are cached by their text, so their nodes live on from request to request and so may the answer.
const cache = new WeakMap<FieldNode, Entry[]>();
const MAX_ENTRIES = 8;

const selectionOf = (info: GraphQLResolveInfo, nodes: readonly FieldNode[]): Selection => {
  const [first] = nodes;
  if (!first) return NOTHING;
  const entries = cache.get(first) ?? [];
  const known = entries.find(
    (entry) => entry.nodes.length === nodes.length && entry.nodes.every((node, i) => node === nodes[i]),
  );
  if (known) return known.selection;

  const walk: Walk = { info, conditional: false };
  const selection: Mutable = {};
  for (const node of nodes) collect(walk, node.selectionSet, selection);
  // An answer that hangs on variables holds for this request only.
  if (!walk.conditional && entries.length < MAX_ENTRIES)
    cache.set(first, [...entries, { nodes: [...nodes], selection }]);
  return selection;
};

interface Mutable {
  [field: string]: Mutable;
}

interface Walk {
  readonly info: GraphQLResolveInfo;
  conditional: boolean;
}

const collect = (walk: Walk, set: SelectionSetNode | undefined, into: Mutable): void => {
  for (const node of set?.selections ?? []) {
    if (!isIncluded(walk, node)) continue;
    if (node.kind === 'Field') {
      const name = node.name.value;
      into[name] ??= {};
      const below = into[name];
      collect(walk, node.selectionSet, below);
    } else {
      collect(walk, fragmentOf(walk.info, node)?.selectionSet, into);
    }
  }
};

const childFields = (info: GraphQLResolveInfo, nodes: readonly FieldNode[]): FieldNode[] => {
  const walk: Walk = { info, conditional: false };
  const found: FieldNode[] = [];
  const visit = (set: SelectionSetNode | undefined): void => {
    for (const node of set?.selections ?? []) {
      if (!isIncluded(walk, node)) continue;
      if (node.kind === 'Field') found.push(node);
      else visit(fragmentOf(info, node)?.selectionSet);
    }
  };
  for (const node of nodes) visit(node.selectionSet);
  return found;
};

const fragmentOf = (
  info: GraphQLResolveInfo,
  node: Exclude<SelectionNode, FieldNode>,
): { readonly selectionSet: SelectionSetNode } | FragmentDefinitionNode | undefined =>
  node.kind === 'InlineFragment' ? node : info.fragments[node.name.value];

const isIncluded = (walk: Walk, node: SelectionNode): boolean => {
  if (!node.directives?.length) return true;
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
