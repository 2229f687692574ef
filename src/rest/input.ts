import { z } from 'zod';
import { badParameters } from '#platform/errors.ts';
import type { Parameters } from './nested.ts';
import { BLANK, INVALID, isObject, kindOf, MISSING, notInList } from './param-kind.ts';

/** The parameters of a route or page by name, each of one of the kinds in params.ts. */
export type Shape = Readonly<Record<string, z.ZodType>>;
export type Input<S extends Shape> = z.output<z.ZodObject<S>>;
/** The default shape: no parameters. */
export type NoInput = Readonly<Record<never, never>>;

/** Returns the declared shape. */
export const shapeOf = <S extends Shape = NoInput>({ input }: { readonly input?: S }): S => {
  const none: Shape = {};
  // Without `input`, S is the default, which has no keys.
  return input ?? (none as S);
};

/**
 * A condition on several parameters. `check` returns null or the problem. `given` contains only declared parameters
 * that were sent.
 */
export interface Rule<N extends string> {
  readonly names: readonly N[];
  check(given: Parameters): string | null;
}

/**
 * Compiles a shape into a parser. The parser throws a DomainError `parameters` that names every problem (conventions
 * §1).
 */
export const inputParser = <S extends Shape>(shape: S, rules: readonly Rule<string>[] = []) => {
  // Compiled for the first request, because a hub starts sooner without the parsers of all routes.
  let pick: ReturnType<typeof picker> | undefined;
  let schema: z.ZodObject<S> | undefined;
  return (sent: Parameters): Input<S> => {
    pick ??= picker(shape);
    schema ??= z.object(shape);
    const given = pick(sent);
    const result = schema.safeParse(given);
    if (result.success && rules.length === 0) return result.data;
    const problems = result.success ? [] : result.error.issues.map((issue) => describeIssue(issue, given));
    for (const rule of rules) {
      const problem = rule.check(given);
      if (problem !== null) problems.push(problem);
    }
    if (result.success && problems.length === 0) return result.data;
    throw badParameters([...new Set(problems)].slice(0, MAX_PROBLEMS).join(', '));
  };
};

const MAX_PROBLEMS = 20;

/** Returns a function that picks the declared parameters and applies the rules for empty values. */
export const picker = (shape: Shape) => {
  const fields = Object.entries(shape).map(([name, schema]) => {
    const { emptyIsNull = false, emptyHashIsNull = false, refusesNull = false } = kindOf(schema) ?? {};
    return { name, emptyIsNull, emptyHashIsNull, takesNull: refusesNull || schema.safeParse(null).success };
  });
  return (sent: Parameters): Parameters => {
    const given: Parameters = {};
    for (const { name, emptyIsNull, emptyHashIsNull, takesNull } of fields) {
      let value = sent[name];
      if (value === '' && emptyIsNull) value = null;
      if (emptyHashIsNull && isObject(value) && Object.keys(value).length === 0) value = null;
      if (value !== undefined && (value !== null || takesNull)) given[name] = value;
    }
    return given;
  };
};

const describeIssue = (issue: z.core.$ZodIssue, given: Parameters): string => {
  // Reports a bad element of a plain list as a problem of the list, as existing tools expect.
  const path = typeof issue.path.at(-1) === 'number' ? issue.path.slice(0, -1) : issue.path;
  const [first = '', ...rest] = path.map(String);
  const name = first + rest.map((part) => `[${part}]`).join('');
  if (issue.code === 'custom') return `${name} ${issue.message}`;
  const value = issue.path.reduce<unknown>(
    (at, key) => (isObject(at) || Array.isArray(at) ? Reflect.get(at, key) : undefined),
    given,
  );
  if (value === undefined || value === null) return `${name} ${(value === null ? BLANK : MISSING).problem}`;
  const refusal = issue.code === 'invalid_value' ? notInList(issue.values.join(', ')) : INVALID;
  return `${name} ${refusal.problem}`;
};
