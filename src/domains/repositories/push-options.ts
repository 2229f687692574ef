import { z } from 'zod';

// Push options, as in `git push -o ci.skip -o ci.variable=A=1`. Only hooks and subscribers get them, not git, its hooks
// or their environment.

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
 * Groups options by namespace. Drops unknown options. Adds a message for each unknown option and for those without
 * effect.
 */
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
    if (namespace === 'merge_request') {
      messages.add(
        `Pushes cannot create or change merge requests here, so the push option "${namespace}.${key}" has no effect.`,
      );
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
