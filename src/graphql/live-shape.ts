import {
  type FieldNode,
  GraphQLError,
  type GraphQLNamedType,
  getNamedType,
  isAbstractType,
  isCompositeType,
  isInterfaceType,
  isObjectType,
  type SelectionSetNode,
  visit,
} from 'graphql';
import type { Engine, Prepared } from './engine.ts';
import { walkFields } from './fields.ts';

/** The properties of a document that decide about sharing. Computed once per document. */
export interface Shape {
  readonly id: number;
  readonly root: FieldNode;
  /** The variable that is used only for `after`. Subscribers that differ only in it share everything. */
  readonly cursorVariable: string | null;
  readonly viewerIndependent: boolean;
}

/** Computes the shape of a subscription document. `id` identifies the document. */
export const shapeOf = ({ schema }: Engine, prepared: Prepared, id: number): Shape => {
  const root = rootField(prepared, prepared.operation.selectionSet);
  if (!root) throw new GraphQLError('A subscription needs a field');
  const uses = new Map<string, number>();
  visit(prepared.document, {
    VariableDefinition: () => false,
    Variable: ({ name }) => {
      uses.set(name.value, (uses.get(name.value) ?? 0) + 1);
    },
  });
  const after = root.arguments?.find(({ name }) => name.value === 'after')?.value;
  const variable = after?.kind === 'Variable' ? after.name.value : null;

  const seen = new Set<GraphQLNamedType>();
  const collect = (parent: GraphQLNamedType, set: SelectionSetNode): void =>
    walkFields([set], {
      fragmentOf: (spread) => prepared.fragments[spread.name.value],
      visit: (node, typeName) => {
        const type = typeName === null ? parent : schema.getType(typeName);
        const field = isObjectType(type) || isInterfaceType(type) ? type.getFields()[node.name.value] : undefined;
        const fieldType = field && getNamedType(field.type);
        if (!fieldType || !isCompositeType(fieldType)) return;
        seen.add(fieldType);
        if (isAbstractType(fieldType)) for (const possible of schema.getPossibleTypes(fieldType)) seen.add(possible);
        if (node.selectionSet) collect(fieldType, node.selectionSet);
      },
    });
  const type = schema.getSubscriptionType();
  if (type) collect(type, prepared.operation.selectionSet);
  return {
    id,
    root,
    cursorVariable: variable !== null && uses.get(variable) === 1 ? variable : null,
    viewerIndependent: [...seen].every((each) => each.extensions.viewerIndependent === true),
  };
};

/** Validation guarantees exactly one root field. */
const rootField = (prepared: Prepared, set: SelectionSetNode): FieldNode | undefined => {
  const found: FieldNode[] = [];
  walkFields([set], {
    fragmentOf: (spread) => prepared.fragments[spread.name.value],
    visit: (field) => found.push(field),
  });
  return found[0];
};
