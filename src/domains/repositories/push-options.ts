import { z } from 'zod';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import { definePort } from '#platform/port.ts';
import type { RefUpdate } from './model.ts';

// Push options, as in `git push -o ci.skip -o merge_request.create`. Hooks, subscribers and `afterPush` get them, but
// not git, its hooks or their environment.

/** Such as `{ ci: { skip: true, variable: { 'A=1': 1 } } }`. */
export const pushOptionsSchema = z.record(
  z.string(),
  z.record(z.string(), z.union([z.string(), z.literal(true), z.record(z.string(), z.number())])),
);
export type PushOptions = z.output<typeof pushOptionsSchema>;

export interface ReadPushOptions {
  readonly options: PushOptions;
  /** Lines for the terminal of the person who pushed. */
  readonly messages: readonly string[];
}

const NAMESPACES: ReadonlySet<string> = new Set(['ci', 'merge_request', 'integrations', 'secret_push_protection']);
const ALIASES: Readonly<Record<string, string>> = { mr: 'merge_request' };
/** Options that may occur several times. Their values are counted. */
const MANY: ReadonlySet<string> = new Set([
  'ci.variable',
  'ci.input',
  'merge_request.label',
  'merge_request.unlabel',
  'merge_request.assign',
  'merge_request.unassign',
]);

const OPTION = /^([a-z_]+)\.([a-z][a-z_]*)(?:=([\s\S]*))?$/;

/**
 * Carries out the options of a push that has landed, and returns lines for the terminal of the person who pushed. May
 * run twice for one push, if a process dies in the middle.
 */
export const afterPush = definePort<
  Context,
  [project: ProjectRow, updates: readonly RefUpdate[], options: PushOptions],
  Promise<readonly string[]>
>('repositories.afterPush');

/** Returns true for options that `afterPush` must carry out, even if the process dies first. */
export const mustBeCarriedOut = (options: PushOptions): boolean => options.merge_request !== undefined;

/** Groups options by namespace. Drops unknown options, and adds a message for each. */
export const readPushOptions = (given: readonly string[]): ReadPushOptions => {
  const options: PushOptions = {};
  const messages = new Set<string>();
  for (const option of given) {
    const [, prefix = '', key = '', value] = OPTION.exec(option) ?? [];
    const namespace = ALIASES[prefix] ?? prefix;
    if (!NAMESPACES.has(namespace)) {
      messages.add(`The push option "${option.slice(0, 100)}" is unknown and was ignored.`);
      continue;
    }
    const values = options[namespace] ?? {};
    options[namespace] = values;
    if (MANY.has(`${namespace}.${key}`)) {
      const before = values[key];
      const counts = typeof before === 'object' ? before : {};
      const text = value ?? '';
      values[key] = { ...counts, [text]: (Object.hasOwn(counts, text) ? (counts[text] ?? 0) : 0) + 1 };
    } else {
      values[key] = value === undefined || value === '' ? true : value;
    }
  }
  return { options, messages: [...messages] };
};
