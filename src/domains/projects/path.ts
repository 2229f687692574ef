import { requireValid, tooLong } from '#platform/errors.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';

const MAX_LENGTH = 255;
const NAME =
  /^[\p{L}\p{N}\p{Extended_Pictographic}_](?:[\p{L}\p{N}\p{M}\p{Pd}\p{Extended_Pictographic}_.+ -]|\u200d|\ufe0f)*$/u;
const PATH = /^[A-Za-z0-9_.][A-Za-z0-9_.-]*$/;
const NAME_RULE =
  "can contain only letters, digits, emoji, '_', '.', '+', dashes, or spaces. It must start with a letter, digit, emoji, or '_'.";
const PATH_RULE =
  "can contain only letters, digits, '_', '-' and '.'. Cannot start with '-', end in '.git' or end in '.atom'.";

/** Words that follow a project's path in URLs. */
const RESERVED: ReadonlySet<string> = new Set([
  '-',
  'badges',
  'blame',
  'blob',
  'builds',
  'commits',
  'create',
  'create_dir',
  'edit',
  'files',
  'find_file',
  'new',
  'preview',
  'raw',
  'refs',
  'tree',
  'update',
  'wikis',
]);

/** @throws DomainError `invalid`, naming what is wrong with the project's name and path */
export const checkNameAndPath = (given: {
  readonly name?: string | undefined;
  readonly path?: string | undefined;
}): void => {
  const fields: Record<string, readonly string[]> = {};
  const name = given.name === undefined ? [] : nameProblems(given.name);
  const path = given.path === undefined ? [] : pathProblems(given.path);
  if (name.length > 0) fields.name = name;
  if (path.length > 0) fields.path = path;
  requireValid(fields);
};

/** Turns `My first project!` into `my-first-project`. Returns '' if no character of the name is allowed in a path. */
export const pathFromName = (name: string): string =>
  name
    .normalize('NFKD')
    .replace(/\p{M}/gu, '')
    .toLowerCase()
    .replace(/[^a-z0-9_.-]+/g, '-')
    .replace(/^[-.]+|[-.]+$/g, '')
    .slice(0, MAX_LENGTH);

const nameProblems = (name: string): string[] => {
  if (name.trim() === '') return ["can't be blank"];
  if (isLongerThan(name, MAX_LENGTH)) return [tooLong(MAX_LENGTH)];
  return NAME.test(name) ? [] : [NAME_RULE];
};

const pathProblems = (path: string): string[] => {
  if (path === '') return ["can't be blank"];
  if (path.length > MAX_LENGTH) return [tooLong(MAX_LENGTH)];
  // `.` and `..` end in a dot, as does `x.`, which some file systems do not support.
  if (!PATH.test(path) || /\.(git|atom)?$/i.test(path)) return [PATH_RULE];
  return RESERVED.has(path.toLowerCase()) ? [`${path} is a reserved name`] : [];
};
