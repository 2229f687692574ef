import type { Selectable } from 'kysely';
import type { ProjectAliases } from '#platform/db/tables.ts';
import { tooLong } from '#platform/errors.ts';

/** Another name of a project's repository (specification 1 §2.5). */
export type AliasRow = Pick<Selectable<ProjectAliases>, 'id' | 'project_id' | 'name'>;

const MAX_LENGTH = 255;
const NAME = /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/;

/**
 * Returns an error for an invalid name, or null. An alias is the whole path in `/<name>.git`, without a group. Project
 * paths always include a namespace, so an alias cannot hide a project.
 */
export const aliasNameProblem = (name: string): string | null => {
  if (name === '') return "can't be blank";
  if (name.length > MAX_LENGTH) return tooLong(MAX_LENGTH);
  return NAME.test(name) && !/\.(?:git|atom)?$/i.test(name)
    ? null
    : "can contain only letters, digits, '_', '-' and '.'. It must start with a letter, digit or '_', and cannot end in '.', '.git' or '.atom'.";
};
