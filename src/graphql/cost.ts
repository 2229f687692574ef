import {
  type FieldNode,
  type GraphQLField,
  type GraphQLNamedType,
  type GraphQLSchema,
  getNamedType,
  getNullableType,
  isCompositeType,
  isInterfaceType,
  isListType,
  isObjectType,
  type OperationDefinitionNode,
  type SelectionSetNode,
  type ValueNode,
} from 'graphql';
import { builder } from './builder.ts';
import { MAX_PAGE_SIZE } from './connection.ts';
import { type Fragments, keyOf, walkFields } from './fields.ts';
import { LIMITS, limitError } from './limits.ts';

/** The assumed length of a list that is not paginated. */
const LIST_SIZE = 10;

type Variables = Readonly<Record<string, unknown>>;

/** Computes the size of an operation for given variables. Compiled once per document. */
export type Cost = (variables: Variables) => Asked;

export interface Asked {
  readonly nodes: number;
  /** Fields of all nodes, including nested fields: the values to resolve and serialise. */
  readonly values: number;
}

/**
 * Returns the cost of a validated operation. A connection counts its page size and a plain list counts ten, each
 * multiplied by the sizes of the lists around it. Introspection is free.
 *
 * A field whose resolver is expensive (it reads a repository, for example) declares `extensions: { cost: n }`. A
 * connection that is loaded with its parent and usually holds few rows declares `extensions: { usualSize: n }`, which
 * counts when the query gives no page size. Within itself it counts a whole page, because the error would multiply.
 */
export const costOf = (schema: GraphQLSchema, operation: OperationDefinitionNode, fragments: Fragments): Cost => {
  const known = costs.get(operation);
  if (known) return known;
  const cost = compileCost(schema, operation, fragments);
  costs.set(operation, cost);
  return cost;
};

// Cached because each use of `queryComplexity` needs the cost again.
const costs = new WeakMap<OperationDefinitionNode, Cost>();

const compileCost = (schema: GraphQLSchema, operation: OperationDefinitionNode, fragments: Fragments): Cost => {
  const root = schema.getRootType(operation.operation);
  const branches = root ? compile(schema, fragments, root, [operation.selectionSet]) : [];
  return (variables) => {
    const asked = { nodes: 0, values: 0 };
    add(asked, branches, variables, 1);
    return asked;
  };
};

/** @throws GraphQLError when the operation exceeds `LIMITS.nodes` or `maxValues` */
export const checkCost = (cost: Cost, variables: Variables, maxValues: number): void => {
  const { nodes, values } = cost(variables);
  if (nodes > LIMITS.nodes) {
    throw limitError(
      `The query asks for up to ${nodes} nodes, more than the limit of ${LIMITS.nodes}: ask for smaller pages`,
    );
  }
  if (values > maxValues) {
    throw limitError(
      `The query asks for up to ${values} values, more than the limit of ${maxValues}: ask for smaller pages, or for fewer fields`,
    );
  }
};

interface Branch {
  readonly own: number;
  /** The number of rows per parent: a constant, or read from the variables. */
  readonly size: (variables: Variables) => number;
  readonly isList: boolean;
  readonly below: readonly Branch[];
}

const add = (
  asked: { nodes: number; values: number },
  branches: readonly Branch[],
  variables: Variables,
  parents: number,
): void => {
  for (const { own, size, isList, below } of branches) {
    const rows = parents * size(variables);
    asked.nodes += own * parents + (isList ? rows : 0);
    asked.values += rows;
    add(asked, below, variables, rows);
  }
};

const one = () => 1;

const compile = (
  schema: GraphQLSchema,
  fragments: Fragments,
  parent: GraphQLNamedType,
  sets: readonly SelectionSetNode[],
  above: readonly GraphQLField<unknown, unknown>[] = [],
): Branch[] => {
  const groups = new Map<string, { field: GraphQLField<unknown, unknown>; nodes: FieldNode[] }>();
  walkFields(sets, {
    fragmentOf: (spread) => fragments[spread.name.value],
    visit: (node, typeName) => {
      const type = typeName === null ? parent : schema.getType(typeName);
      const field = isObjectType(type) || isInterfaceType(type) ? type.getFields()[node.name.value] : undefined;
      if (!type || !field || node.name.value.startsWith('__')) return;
      const key = `${type.name}.${keyOf(node)}`;
      const group = groups.get(key);
      if (group) group.nodes.push(node);
      else groups.set(key, { field, nodes: [node] });
    },
  });

  const branches: Branch[] = [];
  for (const { field, nodes } of groups.values()) {
    const type = getNamedType(field.type);
    const own = typeof field.extensions.cost === 'number' ? field.extensions.cost : 0;
    const isConnection = isObjectType(type) && type.getFields().pageInfo !== undefined;
    const isList = isListType(getNullableType(field.type)) && isCompositeType(type);
    const selected = nodes.flatMap((node) => node.selectionSet ?? []);
    const below = isCompositeType(type) ? compile(schema, fragments, type, selected, [...above, field]) : [];
    if (isConnection)
      branches.push({
        own,
        size: selectsRows(fragments, selected)
          ? pageSize(nodes[0], above.includes(field) ? MAX_PAGE_SIZE : usualSizeOf(field))
          : one,
        isList: true,
        below: rowsOnly(below),
      });
    else if (isList) branches.push({ own, size: () => LIST_SIZE, isList: true, below });
    else branches.push({ own, size: one, isList: false, below });
  }
  return branches;
};

/** Returns false for a connection that selects only its count, which fetches no rows. */
const selectsRows = (fragments: Fragments, sets: readonly SelectionSetNode[]): boolean => {
  let found = false;
  walkFields(sets, {
    fragmentOf: (spread) => fragments[spread.name.value],
    visit: ({ name }) => {
      if (name.value !== 'count' && !name.value.startsWith('__')) found = true;
    },
  });
  return found;
};

/** `nodes` and `edges` of a connection are its page, which is already counted. */
const rowsOnly = (below: readonly Branch[]): Branch[] =>
  below.map((branch) => (branch.isList ? { ...branch, isList: false, size: one } : branch));

const usualSizeOf = ({ extensions }: GraphQLField<unknown, unknown>): number =>
  typeof extensions.usualSize === 'number' ? extensions.usualSize : MAX_PAGE_SIZE;

const pageSize = (node: FieldNode | undefined, usual: number): Branch['size'] => {
  const given = (name: string) => node?.arguments?.find((argument) => argument.name.value === name)?.value;
  const [first, last] = [given('first'), given('last')];
  if (!first && !last) return () => usual;
  return (variables) => {
    const size = read(first, variables) ?? read(last, variables) ?? usual;
    return Math.max(0, Math.min(size, MAX_PAGE_SIZE));
  };
};

const read = (value: ValueNode | undefined, variables: Variables): number | null => {
  const found =
    value?.kind === 'Variable' ? variables[value.name.value] : value?.kind === 'IntValue' ? Number(value.value) : null;
  return typeof found === 'number' ? found : null;
};

const QueryComplexity = builder
  .objectRef<{ readonly score: number; readonly limit: number }>('QueryComplexity')
  .implement({
    description: 'The cost of this query: the number of nodes that it requests.',
    extensions: { viewerIndependent: true },
    fields: (t) => ({
      score: t.exposeInt('score', { nullable: false }),
      limit: t.exposeInt('limit', { nullable: false }),
    }),
  });

builder.queryField('queryComplexity', (t) =>
  t.field({
    type: QueryComplexity,
    description: 'The complexity score of this query and the limit.',
    resolve: (_root, _args, _ctx, info) => ({
      score: costOf(info.schema, info.operation, info.fragments)(info.variableValues.coerced).nodes,
      limit: LIMITS.nodes,
    }),
  }),
);
