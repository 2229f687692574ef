import { sql } from 'kysely';
import type { ContainerOrInstance, OwnerAddress } from '#domains/planning/container.ts';
import { ownerColumns } from '#domains/planning/container.ts';
import type { Context, Tx } from '#platform/context.ts';
import { badParameters, invalid, requireUnchanged, requireValid } from '#platform/errors.ts';
import { ciVariableCreated, ciVariableDeleted, ciVariableUpdated } from './events.ts';
import {
  type CiVariableRow,
  MAX_VARIABLES,
  type NewVariable,
  openValue,
  problemsOf,
  readableValue,
  sealValue,
  type VariableAttributes,
  type VariableChanges,
} from './model.ts';
import { getVariableOwner, lockVariableOwner, variableScope } from './policy.ts';
import { type VariableName, variableIn, variablesOf } from './queries.ts';

/**
 * Creates a variable (reference: ci §8).
 *
 * @throws DomainError `not_found` (Group, Project), `unauthenticated`, `forbidden`, `invalid` by attribute, also if the
 *   owner has too many variables, or one with the same key and scope
 */
export const createVariable = async (
  ctx: Context,
  place: OwnerAddress,
  { key, value, masked_and_hidden: hidden = false, ...given }: NewVariable,
): Promise<CiVariableRow> => {
  const seen = await getVariableOwner(ctx, place);
  const scope = scopeOf(seen, given);
  const { raw = false, description = null, variable_type = 'env_var', protected: isProtected = false } = given;
  const masked = hidden || (given.masked ?? false);
  requireValid(problemsOf({ key, value, raw, masked, description, environment_scope: scope }));
  return ctx.transaction(async (tx) => {
    const owner = await lockVariableOwner(tx, seen);
    await requireRoom(tx, owner);
    await requireFree(tx, owner, { key, environment_scope: scope });
    const row = await tx.db
      .insertInto('ci_variables')
      .values({
        ...(owner.kind === 'instance' ? {} : ownerColumns(owner)),
        ...{ key, raw, masked, hidden, description, variable_type, protected: isProtected },
        environment_scope: scope,
        sealed_value: sealValue(tx, value),
      })
      .returningAll()
      .executeTakeFirstOrThrow();
    tx.emit(ciVariableCreated, { ...variableScope(owner, row.id), payload: described(row) });
    return row;
  });
};

/**
 * Changes the given attributes of a variable.
 *
 * @throws DomainError as `createVariable`, `not_found` (Variable), `conflict` if several variables have the key
 */
export const updateVariable = async (
  ctx: Context,
  place: OwnerAddress,
  name: VariableName,
  { masked_and_hidden: hides = false, ...given }: VariableChanges,
): Promise<CiVariableRow> => {
  const seen = await getVariableOwner(ctx, place);
  return ctx.transaction(async (tx) => {
    const owner = await lockVariableOwner(tx, seen);
    const before = await variableIn(tx.db, owner, name);
    const { key } = before;
    if (hides && !before.hidden) throw invalid({ base: ['Only new variables can be set as masked and hidden.'] });
    const { value = openValue(tx, before), ...rest } = given;
    const columns = { ...defined(rest), environment_scope: scopeOf(owner, given, before.environment_scope) };
    const after = { ...before, ...columns };
    if (before.hidden && !after.masked) throw invalid({ masked: ['cannot be removed from a hidden variable'] });
    requireValid(problemsOf({ ...after, value }));
    const { environment_scope } = after;
    if (environment_scope !== before.environment_scope) await requireFree(tx, owner, { key, environment_scope });
    const changed = [
      ...(value === readableValue(tx, before) ? [] : ['value']),
      ...ATTRIBUTES.filter((each) => before[each] !== after[each]),
    ];
    if (changed.length === 0) return before;
    const row = await tx.db
      .updateTable('ci_variables')
      .set({
        ...columns,
        ...(changed.includes('value') ? { sealed_value: sealValue(tx, value) } : {}),
        updated_at: sql`now()`,
      })
      .where('id', '=', before.id)
      .returningAll()
      .executeTakeFirstOrThrow();
    tx.emit(ciVariableUpdated, { ...variableScope(owner, row.id), payload: { ...described(row), changed } });
    return row;
  });
};

/** @throws DomainError as `getVariable`, `modified` */
export const deleteVariable = async (
  ctx: Context,
  place: OwnerAddress,
  name: VariableName,
  unchangedSince: Date | null = null,
): Promise<CiVariableRow> => {
  const seen = await getVariableOwner(ctx, place);
  return ctx.transaction(async (tx) => {
    const owner = await lockVariableOwner(tx, seen);
    const row = await variableIn(tx.db, owner, name);
    requireUnchanged(row, unchangedSince);
    await tx.db.deleteFrom('ci_variables').where('id', '=', row.id).execute();
    tx.emit(ciVariableDeleted, { ...variableScope(owner, row.id), payload: described(row) });
    return row;
  });
};

const ATTRIBUTES = ['variable_type', 'protected', 'masked', 'raw', 'description', 'environment_scope'] as const;

/** Returns the object without its undefined values. */
const defined = <T extends object>(given: T): { [K in keyof T]?: Exclude<T[K], undefined> } => {
  const kept: { [K in keyof T]?: Exclude<T[K], undefined> } = {};
  for (const [name, value] of Object.entries(given)) if (value !== undefined) Reflect.set(kept, name, value);
  return kept;
};

/** @throws DomainError `parameters` for variables of the instance, which reach jobs of all environments */
const scopeOf = (owner: ContainerOrInstance, { environment_scope }: VariableAttributes, before = '*'): string => {
  if (owner.kind === 'instance' && environment_scope !== undefined)
    throw badParameters('environment_scope is not allowed for variables of the instance');
  return environment_scope ?? before;
};

const requireRoom = async (tx: Tx, owner: ContainerOrInstance): Promise<void> => {
  const max = MAX_VARIABLES[owner.kind];
  const { count } = await variablesOf(tx.db, owner)
    .clearSelect()
    .select(({ fn }) => fn.countAll<number>().as('count'))
    .executeTakeFirstOrThrow();
  if (count >= max) throw invalid({ base: [`Maximum number of ci variables (${max}) exceeded`] });
};

const requireFree = async (
  tx: Tx,
  owner: ContainerOrInstance,
  { key, environment_scope }: Required<VariableName> & { readonly environment_scope: string },
): Promise<void> => {
  const taken = await variablesOf(tx.db, owner)
    .where('key', '=', key)
    .where('environment_scope', '=', environment_scope)
    .executeTakeFirst();
  if (taken) throw invalid({ key: [`(${key}) has already been taken`] });
};

const described = ({ id, key, environment_scope, namespace_id, project_id }: CiVariableRow) => ({
  ...{ id, key, environment_scope, namespace_id, project_id },
});
