import {
  type DocumentNode,
  type GraphQLCompositeType,
  type GraphQLSchema,
  getNamedType,
  isInputObjectType,
  isInputType,
  isObjectType,
  TypeInfo,
  typeFromAST,
  type ValidatedExecutionArgs,
  visit,
  visitWithTypeInfo,
} from 'graphql';
import { routes } from '#app/routes.ts';
import { Engine } from '#graphql/engine.ts';
import type { Services } from '#platform/context.ts';
import type { Route } from '#rest/route.ts';
import { reach } from './reached.ts';

// Records the parameters of REST operations and the arguments of GraphQL fields that the tests set in successful
// requests (docs/decisions/0029).

/** Returns, for example, `PUT /projects/:id visibility` or `GET /issues not[labels]`. */
export const parameterName = ({ method, path }: Pick<Route, 'method' | 'path'>, name: string): string =>
  `${method} ${path} ${name}`;

/** Returns, for example, `Query.project(fullPath)`. */
export const argumentName = (type: string, fieldName: string, argument: string): string =>
  `${type}.${fieldName}(${argument})`;

/**
 * Returns the name of the type that declares the field: an interface for the fields that a type repeats from it. So
 * `User.groups(search)` counts once for all types of users.
 */
export const declaringType = (type: GraphQLCompositeType, fieldName: string): string =>
  (isObjectType(type) && type.getInterfaces().find((each) => fieldName in each.getFields())?.name) || type.name;

/** Returns, for example, `UpdateIssueInput.title`. */
export const inputFieldName = (type: string, name: string): string => `${type}.${name}`;

const sweeps = new WeakSet<Services>();

/**
 * Stops counting requests to this hub as tests of their parameters. Sweeps set all parameters, and assert only that
 * nothing breaks or leaks.
 */
export const ignoreParameters = (services: Services): void => {
  sweeps.add(services);
};

const isHash = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === 'object' &&
  value !== null &&
  (Object.getPrototypeOf(value) === null || Object.getPrototypeOf(value) === Object.prototype);

const reachNested = (route: Route, name: string, value: unknown): void => {
  if (value === undefined || name.length > 200) return;
  reach(parameterName(route, name));
  for (const each of Array.isArray(value) ? value : [value]) {
    if (!isHash(each)) continue;
    const prefix = Array.isArray(value) ? `${name}[]` : name;
    for (const [key, inner] of Object.entries(each)) reachNested(route, `${prefix}[${key}]`, inner);
  }
};

for (const route of routes) {
  const { handle: original } = route;
  const recorded: Route['handle'] = async (ctx, sent, http) => {
    const outcome = await original(ctx, sent, http);
    if (!sweeps.has(ctx.services)) for (const [name, value] of Object.entries(sent)) reachNested(route, name, value);
    return outcome;
  };
  Object.defineProperty(route, 'handle', { value: recorded });
}

/** Returns whether the operation ran, and its mutations reported no errors, which are texts. */
const succeeded = ({ data, errors }: Awaited<ReturnType<Engine['run']>>): boolean =>
  !errors &&
  Object.values(data ?? {}).every(
    (payload) =>
      !isHash(payload) || !Array.isArray(payload.errors) || payload.errors.every((error) => typeof error !== 'string'),
  );

const { run } = Engine.prototype;
Engine.prototype.run = async function (ctx, prepared, args) {
  const result = await run.call(this, ctx, prepared, args);
  if (!sweeps.has(ctx.services) && succeeded(result)) reachArguments(this.schema, prepared.document, args);
  return result;
};

const documents = new WeakSet<DocumentNode>();

const reachArguments = (schema: GraphQLSchema, document: DocumentNode, args: ValidatedExecutionArgs): void => {
  const { sources } = args.variableValues;
  for (const { variable, type } of args.operation.variableDefinitions ?? []) {
    reachInput(schema, typeFromAST(schema, type), sources[variable.name.value]?.value);
  }
  const constant = Object.keys(sources).length === 0;
  if (constant && documents.has(document)) return;
  documents.add(document);
  const types = new TypeInfo(schema);
  visit(
    document,
    visitWithTypeInfo(types, {
      Argument: ({ name, value }) => {
        if (value.kind === 'Variable' && sources[value.name.value]?.value === undefined) return;
        const [parent, definition] = [types.getParentType(), types.getFieldDef()];
        if (parent && definition && !types.getDirective())
          reach(argumentName(declaringType(parent, definition.name), definition.name, name.value));
      },
      ObjectField: ({ name }) => {
        const parent = getNamedType(types.getParentInputType());
        if (parent) reach(inputFieldName(parent.name, name.value));
      },
    }),
  );
};

const reachInput = (schema: GraphQLSchema, type: unknown, value: unknown): void => {
  if (!isInputType(type)) return;
  const named = getNamedType(type);
  if (!isInputObjectType(named)) return;
  for (const each of Array.isArray(value) ? value : [value]) {
    if (!isHash(each)) continue;
    for (const [name, inner] of Object.entries(each)) {
      if (inner === undefined) continue;
      reach(inputFieldName(named.name, name));
      reachInput(schema, named.getFields()[name]?.type, inner);
    }
  }
};
