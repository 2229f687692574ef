import type {
  FieldNode,
  GraphQLField,
  GraphQLObjectType,
  GraphQLOutputType,
  GraphQLResolveInfo,
  ValidatedExecutionArgs,
} from 'graphql';
import type { FieldPlan } from './plan.ts';

export type Path = GraphQLResolveInfo['path'];

const asyncHelpers = () => ({
  promiseAll: <T>(values: readonly (PromiseLike<T> | T)[]) => Promise.all(values),
  track: () => undefined,
});

/**
 * The `info` of a resolver call. One is created per call, so it is small: getters read most properties from the run.
 */
export class Info implements GraphQLResolveInfo {
  readonly fieldName: string;
  readonly fieldNodes: readonly FieldNode[];
  readonly returnType: GraphQLOutputType;
  readonly parentType: GraphQLObjectType;
  readonly path: Path;
  readonly plan: FieldPlan;
  readonly #args: ValidatedExecutionArgs;

  constructor(args: ValidatedExecutionArgs, field: FieldPlan, definition: GraphQLField<unknown, unknown>, path: Path) {
    this.fieldName = field.name;
    this.fieldNodes = field.nodes;
    this.returnType = definition.type;
    this.parentType = field.parentType;
    this.path = path;
    this.plan = field;
    this.#args = args;
  }

  get schema() {
    return this.#args.schema;
  }
  get fragments() {
    return this.#args.fragmentDefinitions;
  }
  get rootValue() {
    return this.#args.rootValue;
  }
  get operation() {
    return this.#args.operation;
  }
  get variableValues() {
    return this.#args.variableValues;
  }
  // Bound functions, as in graphql, but created only on access.
  get getAbortSignal() {
    const { externalAbortSignal } = this.#args;
    return () => externalAbortSignal;
  }
  get getAsyncHelpers() {
    return asyncHelpers;
  }
}
