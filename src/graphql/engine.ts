import {
  type DocumentNode,
  type ExecutionResult,
  executeRootSelectionSet,
  type FragmentDefinitionNode,
  GraphQLError,
  type GraphQLSchema,
  getOperationAST,
  type OperationDefinitionNode,
  parse,
  type ValidatedExecutionArgs,
  validate,
  validateExecutionArgs,
} from 'graphql';
import { type Cache, Caches } from '#platform/cache.ts';
import type { Actor, Context } from '#platform/context.ts';
import { type Cost, checkCost, costOf } from './cost.ts';
import { type Deprecated, deprecatedNamesOf, findDeprecated } from './deprecated.ts';
import { maskError } from './errors.ts';
import { type Execute, planOf } from './executor.ts';
import { answerTooLong, checkShape, LIMITS, limitError } from './limits.ts';
import { beginCount } from './row-count.ts';
import { JsonText } from './text-rows.ts';

/** A client's request after its form was checked (params.ts). */
export interface GraphqlParams {
  readonly query: string;
  readonly operationName: string | null;
  readonly variables: Readonly<Record<string, unknown>>;
}

export interface Prepared {
  readonly document: DocumentNode;
  readonly operation: OperationDefinitionNode;
  readonly fragments: Readonly<Record<string, FragmentDefinitionNode>>;
  readonly cost: Cost;
  readonly deprecated: Deprecated;
  /**
   * The cost of caching the document: its tokens, its selections after fragment expansion, and a fraction of its
   * length.
   */
  readonly weight: number;
  /** Null means that graphql's own executor runs the operation. */
  readonly execute: Execute | null;
}

type CountDeprecated = (use: { readonly names: readonly string[]; readonly actor: Actor }) => void;

/** A request that was refused before anything ran. */
export class Refused {
  readonly errors: readonly GraphQLError[];
  /** Set when the refusal has an HTTP status of its own. Otherwise the status depends on the media type. */
  readonly status: number | undefined;

  constructor(errors: readonly GraphQLError[], status?: number) {
    this.errors = errors;
    this.status = status;
  }
}

/** Runs operations of one schema for every transport. Caches accepted documents by their text. */
export class Engine {
  readonly schema: GraphQLSchema;
  readonly #documents: Cache<string, Prepared>;
  readonly #countDeprecated: CountDeprecated;

  /** `countDeprecated` is called for each operation that uses something deprecated, before it runs. */
  constructor(schema: GraphQLSchema, caches = new Caches(), countDeprecated: CountDeprecated = () => {}) {
    this.schema = schema;
    this.#countDeprecated = countDeprecated;
    this.#documents = caches.create({
      name: 'graphql documents',
      limit: LIMITS.rememberedWeight,
      weightOf: ({ weight }) => weight,
    });
  }

  /** Parses the document, checks the limits, validates, and selects the operation. */
  prepare({ query, operationName }: Pick<GraphqlParams, 'query' | 'operationName'>): Prepared | Refused {
    if (query.length > LIMITS.textLength) {
      return new Refused([limitError(`The query exceeds the limit of ${LIMITS.textLength} characters`)]);
    }
    const key = `${query.length}:${query}${operationName ?? ''}`;
    const known = this.#documents.get(key);
    if (known) return known;
    const prepared = this.#compile(query, operationName);
    if (!(prepared instanceof Refused)) this.#documents.set(key, prepared);
    return prepared;
  }

  /** Whether the request only reads, so that it may run for an assumed caller (decision 17). Counting is no reading. */
  isRead(params: GraphqlParams): boolean {
    const prepared = this.prepare(params);
    if (prepared instanceof Refused || prepared.operation.operation !== 'query') return false;
    const { names, variables } = prepared.deprecated;
    return names.length === 0 && variables.size === 0;
  }

  /** Checks the variables, the token's scope and the cost of the operation, without running it. */
  bind(
    ctx: Context,
    prepared: Prepared,
    variables: GraphqlParams['variables'],
    rootValue?: unknown,
  ): ValidatedExecutionArgs | Refused {
    const args = validateExecutionArgs({
      schema: this.schema,
      document: prepared.document,
      operationName: prepared.operation.name?.value,
      variableValues: variables,
      contextValue: ctx,
      rootValue,
    });
    if (!('schema' in args)) return new Refused(args);
    const refused = refusal(() => {
      checkScope(ctx.actor, prepared.operation.operation);
      checkCost(prepared.cost, args.variableValues.coerced, prepared.execute ? LIMITS.values : LIMITS.valuesInOneGo);
    });
    if (refused) return refused;
    const names = deprecatedNamesOf(prepared.deprecated, variables);
    if (names.length > 0) this.#countDeprecated({ names, actor: ctx.actor });
    return args;
  }

  /** Runs a bound operation. Masks its errors. Throws if the caller was assumed and is no longer valid. */
  async run(ctx: Context, prepared: Prepared, args: ValidatedExecutionArgs): Promise<ExecutionResult> {
    beginCount(args.variableValues, prepared.execute ? LIMITS.values : LIMITS.valuesInOneGo);
    const result = await (prepared.execute ?? executeRootSelectionSet)(args);
    // Before the errors are logged: without the caller, they are no errors.
    await ctx.callerCheck?.confirm(ctx.services.pool);
    if (lengthOf(result.data, LIMITS.answerLength) > LIMITS.answerLength)
      return { errors: [answerTooLong()], data: null };
    return result.errors ? { errors: result.errors.map((error) => maskError(error, ctx)), data: result.data } : result;
  }

  /** Prepares, binds and runs a query or mutation. `readOnly` refuses mutations (GET). */
  async execute(ctx: Context, params: GraphqlParams, { readOnly = false } = {}): Promise<ExecutionResult | Refused> {
    const prepared = this.prepare(params);
    if (prepared instanceof Refused) return prepared;
    const kind = prepared.operation.operation;
    if (readOnly && kind === 'mutation') return new Refused([new GraphQLError('Mutations need a POST request')], 405);
    if (kind === 'subscription') {
      return new Refused(
        [new GraphQLError('Subscriptions need a WebSocket or the header `Accept: text/event-stream`')],
        406,
      );
    }
    const args = this.bind(ctx, prepared, params.variables);
    return args instanceof Refused ? args : this.run(ctx, prepared, args);
  }

  #compile(query: string, operationName: string | null): Prepared | Refused {
    let document: DocumentNode | undefined;
    let weight = 0;
    const refused = refusal(() => {
      document = parse(query, { maxTokens: LIMITS.tokens });
      weight = checkShape(document) + (document.tokenCount ?? 0) + query.length / CHARACTERS_PER_TOKEN;
      const [first, ...others] = validate(this.schema, document, undefined, { maxErrors: 20 });
      if (first) throw new AggregateError([first, ...others]);
    });
    if (refused || !document) return refused ?? new Refused([]);
    const operation = getOperationAST(document, operationName);
    if (!operation) {
      const message =
        operationName === null
          ? 'Must provide operation name if query contains multiple operations.'
          : `Unknown operation named "${operationName}".`;
      return new Refused([new GraphQLError(message)]);
    }
    const fragments: Record<string, FragmentDefinitionNode> = {};
    for (const definition of document.definitions) {
      if (definition.kind === 'FragmentDefinition') fragments[definition.name.value] = definition;
    }
    const cost = costOf(this.schema, operation, fragments);
    const deprecated = findDeprecated(this.schema, document, operation);
    const prepared = { document, operation, fragments, weight, cost, deprecated };
    return { ...prepared, execute: planOf(this.schema, prepared) };
  }
}

/** Number of characters that weigh as much as one token. */
const CHARACTERS_PER_TOKEN = 100;

/** Returns the total length of all strings in a result. Stops counting above `atMost`. */
const lengthOf = (value: unknown, atMost: number): number => {
  if (typeof value === 'string') return value.length;
  if (value instanceof JsonText) return value.text.length;
  if (typeof value !== 'object' || value === null) return 0;
  let length = 0;
  // `for...in` covers arrays too, and allocates no list of the values.
  for (const key in value) {
    length += lengthOf(Reflect.get(value, key), atMost - length);
    if (length > atMost) break;
  }
  return length;
};

/** Mutations need the scope `api`. Queries and subscriptions need `read_api` or `api`. */
const checkScope = ({ scopes }: Actor, kind: OperationDefinitionNode['operation']): void => {
  if (scopes === null || scopes.has('api') || (kind !== 'mutation' && scopes.has('read_api'))) return;
  const accepted = kind === 'mutation' ? ['api'] : ['api', 'read_api'];
  throw new GraphQLError(`The token lacks a required scope: ${accepted.join(' or ')}`, {
    extensions: { code: 'INSUFFICIENT_SCOPE', scopes: accepted },
  });
};

/** Turns the request errors that a check throws into a refusal. Rethrows other errors. */
const refusal = (check: () => void): Refused | null => {
  try {
    check();
    return null;
  } catch (error) {
    if (error instanceof AggregateError) return new Refused(error.errors);
    if (error instanceof GraphQLError)
      return new Refused([error], error.extensions.code === 'INSUFFICIENT_SCOPE' ? 403 : undefined);
    // The parser and the validation rules are recursive. No real query is nested deeply enough to overflow the stack.
    if (error instanceof RangeError) return new Refused([limitError('The query is nested too deeply')]);
    throw error;
  }
};
