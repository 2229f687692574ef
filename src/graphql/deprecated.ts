import {
  type DocumentNode,
  type GraphQLInputType,
  type GraphQLSchema,
  getNamedType,
  isInputObjectType,
  isInputType,
  type OperationDefinitionNode,
  TypeInfo,
  typeFromAST,
  visit,
  visitWithTypeInfo,
} from 'graphql';

/** The deprecated parts of the schema that an operation uses, such as `MergeRequest.mergeStatus`. */
export interface Deprecated {
  /** The names in the text of the operation. */
  readonly names: readonly string[];
  /** The variables whose values can hold deprecated input fields, with their types. */
  readonly variables: ReadonlyMap<string, GraphQLInputType>;
}

/** Finds deprecated fields, arguments and input fields in the text of an operation. Done once for each text. */
export const findDeprecated = (
  schema: GraphQLSchema,
  document: DocumentNode,
  operation: OperationDefinitionNode,
): Deprecated => {
  const names = new Set<string>();
  const types = new TypeInfo(schema);
  const visitor = visitWithTypeInfo(types, {
    Field: () => {
      const [parent, field] = [types.getParentType(), types.getFieldDef()];
      if (parent && field && field.deprecationReason != null) names.add(`${parent.name}.${field.name}`);
    },
    Argument: () => {
      const [parent, field, argument] = [types.getParentType(), types.getFieldDef(), types.getArgument()];
      if (parent && field && argument?.deprecationReason != null)
        names.add(`${parent.name}.${field.name}(${argument.name})`);
    },
    ObjectField: ({ name }) => {
      const parent = getNamedType(types.getParentInputType());
      if (isInputObjectType(parent) && parent.getFields()[name.value]?.deprecationReason != null)
        names.add(`${parent.name}.${name.value}`);
    },
  });
  for (const definition of document.definitions) {
    if (definition === operation || definition.kind === 'FragmentDefinition') visit(definition, visitor);
  }
  const variables = new Map<string, GraphQLInputType>();
  for (const { variable, type } of operation.variableDefinitions ?? []) {
    const input = typeFromAST(schema, type);
    if (isInputType(input) && mayHoldDeprecated(input, new Set())) variables.set(variable.name.value, input);
  }
  return { names: [...names], variables };
};

/** Returns the deprecated names that a request uses: those of its text, and the input fields in its variables. */
export const deprecatedNamesOf = (
  { names, variables }: Deprecated,
  given: Readonly<Record<string, unknown>>,
): readonly string[] => {
  if (variables.size === 0) return names;
  const found = new Set(names);
  for (const [name, type] of variables) addInputNames(found, type, given[name]);
  return [...found];
};

const addInputNames = (found: Set<string>, type: GraphQLInputType, value: unknown): void => {
  const named = getNamedType(type);
  if (!isInputObjectType(named)) return;
  const fields = named.getFields();
  for (const each of Array.isArray(value) ? value : [value]) {
    if (typeof each !== 'object' || each === null) continue;
    for (const [name, inner] of Object.entries(each)) {
      const field = fields[name];
      if (!field) continue;
      if (field.deprecationReason != null) found.add(`${named.name}.${name}`);
      addInputNames(found, field.type, inner);
    }
  }
};

const mayHoldDeprecated = (type: GraphQLInputType, seen: Set<string>): boolean => {
  const named = getNamedType(type);
  if (!isInputObjectType(named) || seen.has(named.name)) return false;
  seen.add(named.name);
  return Object.values(named.getFields()).some(
    (field) => field.deprecationReason != null || mayHoldDeprecated(field.type, seen),
  );
};
