import type {
  FieldNode,
  FragmentDefinitionNode,
  FragmentSpreadNode,
  InlineFragmentNode,
  SelectionSetNode,
} from 'graphql';

/** The fragments of a document by their names. */
export type Fragments = Readonly<Record<string, FragmentDefinitionNode>>;

interface Walk {
  fragmentOf(spread: FragmentSpreadNode): FragmentDefinitionNode | undefined;
  /** False leaves out a field, or a fragment with everything in it. */
  includes?(node: FieldNode | FragmentSpreadNode | InlineFragmentNode | FragmentDefinitionNode): boolean;
  /** Gets each field, and the type that the innermost fragment around it is on: null where none names a type. */
  visit(field: FieldNode, typeName: string | null): void;
}

/**
 * Visits the fields that stand beside each other in `sets`, through fragments. Like execution it enters each named fragment
 * once, so a document of fragments that spread each other costs no more than its length.
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

/** The same fields by the key they are answered under: their alias, or else their name. */
export const keyOf = (field: FieldNode): string => field.alias?.value ?? field.name.value;
