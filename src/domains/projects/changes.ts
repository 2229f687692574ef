import { wasAsOpen } from '#domains/access/model.ts';
import { withoutPrevious } from '#platform/events.ts';
import { type ProjectRow, projectScope } from './model.ts';

/** Returns the columns of `wanted` whose value differs from the project's, with both values. */
export const differences = (before: ProjectRow, wanted: Readonly<Record<string, unknown>>) => {
  const changes: Record<string, { previous: unknown; current: unknown }> = {};
  for (const [name, value] of Object.entries(wanted)) {
    const previous: unknown = Reflect.get(before, name);
    const current: unknown = name === 'container_expiration_policy' ? JSON.parse(String(value)) : value;
    if (value === undefined || isSame(previous, current)) continue;
    // Do not publish where the avatar is stored.
    changes[name] = name === 'avatar_key' ? { previous: null, current: null } : { previous, current };
  }
  return changes;
};

/** Leaves former values out if some who can see the project now could not see it before the change. */
export const visibleChanges = <C extends { readonly current: unknown }>(
  changes: Readonly<Record<string, C>>,
  before: ProjectRow,
  after: ProjectRow,
) => (wasAsOpen(projectScope(before), projectScope(after)) ? changes : withoutPrevious(changes, ['visibility_level']));

/** Compares lists and objects by content, regardless of the order of keys. */
const isSame = (a: unknown, b: unknown): boolean => {
  if (typeof a !== 'object' || typeof b !== 'object' || a === null || b === null) return a === b;
  const keys = Object.keys(a);
  return keys.length === Object.keys(b).length && keys.every((key) => isSame(Reflect.get(a, key), Reflect.get(b, key)));
};
