import {
  type FieldNode,
  type GraphQLField,
  type GraphQLFieldResolver,
  type GraphQLLeafType,
  type GraphQLObjectType,
  type GraphQLSchema,
  getArgumentValues,
  getNamedType,
  getNullableType,
  isAbstractType,
  isInterfaceType,
  isLeafType,
  isNonNullType,
  isObjectType,
  type SelectionSetNode,
  visit,
} from 'graphql';
import type { Prepared } from './engine.ts';
import { keyOf, walkFields } from './fields.ts';

/**
 * Compiles the selection of a query or subscription. Selections below the root are compiled when a value of their type
 * first comes. Returns null for mutations, introspection and directives, which are not planned.
 */
export const compile = (
  schema: GraphQLSchema,
  prepared: Pick<Prepared, 'document' | 'operation' | 'fragments'>,
): SelectionPlan | null => {
  const root = schema.getRootType(prepared.operation.operation);
  if (!root || prepared.operation.operation === 'mutation' || !isPlain(prepared)) return null;
  return new SelectionPlan({ schema, fragments: prepared.fragments }, root, [prepared.operation.selectionSet]);
};

const isPlain = ({ document }: Pick<Prepared, 'document'>): boolean => {
  let plain = true;
  const forbid = () => {
    plain = false;
  };
  visit(document, {
    Directive: forbid,
    Field: (node) => {
      if (keyOf(node) === '__proto__' || node.name.value === '__schema' || node.name.value === '__type') forbid();
    },
  });
  return plain;
};

interface Document {
  readonly schema: GraphQLSchema;
  readonly fragments: Prepared['fragments'];
}

/** The selection on one object type. */
export class SelectionPlan {
  readonly type: GraphQLObjectType;
  readonly fields: readonly FieldPlan[];

  constructor(document: Document, type: GraphQLObjectType, sets: readonly SelectionSetNode[]) {
    this.type = type;
    const groups = new Map<string, FieldNode[]>();
    const fits = (typeName: string): boolean => {
      const condition = document.schema.getType(typeName);
      return condition === type || (isAbstractType(condition) && document.schema.isSubType(condition, type));
    };
    walkFields(sets, {
      fragmentOf: (spread) => document.fragments[spread.name.value],
      includes: (node) =>
        node.kind === 'Field' ||
        node.kind === 'FragmentSpread' ||
        !node.typeCondition ||
        fits(node.typeCondition.name.value),
      visit: (node) => {
        const key = keyOf(node);
        const group = groups.get(key);
        if (group) group.push(node);
        else groups.set(key, [node]);
      },
    });
    this.fields = [...groups].map(([key, nodes]) => new FieldPlan(document, type, key, nodes));
  }
}

/** One field of a selection, with everything about it that does not depend on the request. */
export class FieldPlan {
  readonly document: Document;
  readonly parentType: GraphQLObjectType;
  readonly key: string;
  readonly name: string;
  readonly nodes: readonly FieldNode[];
  readonly definition: GraphQLField<unknown, unknown> | undefined;
  readonly resolve: GraphQLFieldResolver<unknown, unknown> | undefined;
  readonly isNonNull: boolean;
  /** The type of a leaf field. Null for other fields. */
  readonly leaf: GraphQLLeafType | null;
  /** Whether the resolver takes `info`. */
  readonly takesInfo: boolean;
  /** Arguments without variables, read once for all requests. */
  readonly constantArgs: Record<string, unknown> | undefined;
  readonly #below = new Map<GraphQLObjectType, SelectionPlan>();
  readonly #sets: readonly SelectionSetNode[];

  constructor(document: Document, parentType: GraphQLObjectType, key: string, nodes: readonly FieldNode[]) {
    this.document = document;
    this.parentType = parentType;
    this.key = key;
    this.nodes = nodes;
    this.name = nodes[0]?.name.value ?? key;
    this.definition = parentType.getFields()[this.name];
    this.resolve = this.definition?.resolve;
    this.isNonNull = this.definition !== undefined && isNonNullType(this.definition.type);
    const type = this.definition && getNullableType(this.definition.type);
    this.leaf = isLeafType(type) ? type : null;
    this.takesInfo = this.resolve !== undefined && (this.resolve.length === 0 || this.resolve.length > 3);
    this.constantArgs =
      this.definition && (this.definition.args.length === 0 || nodes[0]?.arguments?.length === 0)
        ? this.#constants()
        : undefined;
    this.#sets = nodes.flatMap((node) => node.selectionSet ?? []);
  }

  below(type: GraphQLObjectType): SelectionPlan {
    let plan = this.#below.get(type);
    if (!plan) {
      plan = new SelectionPlan(this.document, type, this.#sets);
      this.#below.set(type, plan);
    }
    return plan;
  }

  /** Returns the selection below a field that returns objects of one type, or a list of them. */
  belowOnly(): SelectionPlan | null {
    const type = this.definition && getNamedType(this.definition.type);
    if (isObjectType(type)) return this.below(type);
    // One implementation is enough: the fields of the interface resolve alike.
    const [first] = isInterfaceType(type) ? this.document.schema.getPossibleTypes(type) : [];
    return first ? this.below(first) : null;
  }

  /**
   * Returns the default values of a field that is used without arguments. Returns undefined when an argument is
   * required, so that execution reports it.
   */
  #constants(): Record<string, unknown> | undefined {
    const [node] = this.nodes;
    if (!this.definition || !node || this.definition.args.some((arg) => isNonNullType(arg.type))) return undefined;
    return Object.freeze(getArgumentValues(this.definition, node));
  }
}
