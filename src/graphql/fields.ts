import type {
  FieldNode,
  FragmentDefinitionNode,
  FragmentSpreadNode,
  InlineFragmentNode,
  SelectionSetNode,
} from 'graphql';

/** The fragments of a document by name. */
export type Fragments = Readonly<Record<string, FragmentDefinitionNode>>;

interface Walk {
  fragmentOf(spread: FragmentSpreadNode): FragmentDefinitionNode | undefined;
  /** Returns false to skip a field, or a fragment with all its fields. */
  includes?(node: FieldNode | FragmentSpreadNode | InlineFragmentNode | FragmentDefinitionNode): boolean;
  /** Called with each field and the type condition of the innermost fragment around it, or null when there is none. */
  visit(field: FieldNode, typeName: string | null): void;
}

/**
 * Visits the fields at one level of `sets`, through fragments. Like execution, it enters each named fragment once, so
 * fragments that spread each other cost no more than the length of the document.
 */
export const walkFields = (sets: readonly SelectionSetNode[], { fragmentOf, includes, visit }: Walk): void => {
  const entered = new Set<string>();
  const enter = (set: SelectionSetNode, typeName: string | null): void => {
    for (const node of set.selections) {
      if (includes?.(node) === false) continue;
      if (node.kind === 'Field') {
        visit(node, typeName);
      } else if (node.kind === 'InlineFragment') {
        enter(node.selectionSet, node.typeCondition?.name.value ?? typeName);
      } else if (!entered.has(node.name.value)) {
        entered.add(node.name.value);
        const fragment = fragmentOf(node);
        if (fragment && includes?.(fragment) !== false) enter(fragment.selectionSet, fragment.typeCondition.name.value);
      }
    }
  };
  for (const set of sets) enter(set, null);
};

/** Returns the response key of a field: its alias, or else its name. */
export const keyOf = (field: FieldNode): string => field.alias?.value ?? field.name.value;
