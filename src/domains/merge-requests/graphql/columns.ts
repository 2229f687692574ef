import { ObjectFieldBuilder, type ObjectFieldThunk } from '@pothos/core';
import { builder, type Types } from '#graphql/builder.ts';
import type { Selection } from '#graphql/lookahead.ts';
import { MergeRequestRef } from '../graphql.ts';
import type { MergeRequestColumn, MergeRequestRow } from '../queries.ts';

const columnsOfField = new Map<string, readonly MergeRequestColumn[]>([['__typename', []]]);

/** Adds a field to MergeRequest that can read only these columns, so that lists select no more. */
export const mergeRequestField = <const Column extends MergeRequestColumn>(
  name: string,
  columns: readonly Column[],
  field: ObjectFieldThunk<Types, Pick<MergeRequestRow, 'id' | Column>>,
): void => {
  columnsOfField.set(name, columns);
  builder.objectField(MergeRequestRef, name, () => field(new ObjectFieldBuilder(builder)));
};

const columnsOfSelection = new WeakMap<Selection, readonly MergeRequestColumn[] | undefined>();

/** Returns the columns to read for a selection; undefined for all, if a field was added without `mergeRequestField`. */
export const mergeRequestColumns = (selection: Selection): readonly MergeRequestColumn[] | undefined => {
  if (columnsOfSelection.has(selection)) return columnsOfSelection.get(selection);
  const columns = new Set<MergeRequestColumn>(['id']);
  let isKnown = true;
  for (const field of Object.keys(selection)) {
    const read = columnsOfField.get(field);
    if (!read) isKnown = false;
    for (const column of read ?? []) columns.add(column);
  }
  const found = isKnown ? [...columns] : undefined;
  columnsOfSelection.set(selection, found);
  return found;
};
