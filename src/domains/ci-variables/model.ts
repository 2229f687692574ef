import type { Selectable } from 'kysely';
import type { Context } from '#platform/context.ts';
import type { CiVariables } from '#platform/db/tables.ts';
import { type FieldErrors, tooLong } from '#platform/errors.ts';
import { decrypt, decryptOrNull, encrypt } from '#platform/secrets.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';

export type CiVariableRow = Selectable<CiVariables>;

export const VARIABLE_TYPES = ['env_var', 'file'] as const;
export type VariableType = (typeof VARIABLE_TYPES)[number];

/** A variable as a job gets it. */
export interface JobVariable {
  readonly key: string;
  readonly value: string;
  /** Whether the runner hides the value in the log. */
  readonly masked: boolean;
  /** Whether references to other variables in the value are left alone. */
  readonly raw: boolean;
  /** Whether the job gets the path of a file with the value. */
  readonly file: boolean;
  /** The value was encrypted with a lost key, so it is empty here: no job may run with it. */
  readonly is_lost: boolean;
}

/** The attributes that callers may set. Absent attributes keep their value, or get the default. */
export interface VariableAttributes {
  readonly value?: string | undefined;
  readonly variable_type?: VariableType | undefined;
  readonly protected?: boolean | undefined;
  readonly masked?: boolean | undefined;
  readonly raw?: boolean | undefined;
  readonly description?: string | null | undefined;
  /** Not for variables of the instance. */
  readonly environment_scope?: string | undefined;
}

export interface NewVariable extends VariableAttributes {
  readonly key: string;
  readonly value: string;
  /** Masked, and the value is never shown again. Not for variables of the instance. */
  readonly masked_and_hidden?: boolean | undefined;
}

export interface VariableChanges extends VariableAttributes {
  /** Only new variables can be hidden: others may have seen the value. */
  readonly masked_and_hidden?: boolean | undefined;
}

/** The largest number of variables of each owner (reference: ci §8). */
export const MAX_VARIABLES = { instance: 25, group: 30_000, project: 8_000 } as const;

const MAX_KEY = 255;
const MAX_VALUE = 10_000;
const MAX_DESCRIPTION = 255;
const MAX_SCOPE = 255;

const MASKABLE = /^[A-Za-z0-9_+=/@:.~-]{8,}$/;
const MASKABLE_RAW = /^\S{8,}$/;
const SCOPE = /^[A-Za-z0-9_/\\${} .*-]+$/;

interface Checked {
  readonly key: string;
  readonly value: string;
  readonly environment_scope: string;
  readonly description: string | null;
  readonly masked: boolean;
  readonly raw: boolean;
}

/** Returns what is wrong with a variable, by attribute (reference: ci §8). */
export const problemsOf = ({ key, value, environment_scope, description, masked, raw }: Checked): FieldErrors => {
  const problems: Record<string, string[]> = {};
  const keyProblem = keyProblemOf(key);
  if (keyProblem !== null) problems.key = [keyProblem];
  const valueProblem = valueProblemOf(value);
  if (valueProblem !== null) problems.value = [valueProblem];
  else if (masked && !(raw ? MASKABLE_RAW : MASKABLE).test(value))
    problems.value = [
      raw
        ? 'is invalid (a masked value has at least 8 characters and no blanks)'
        : 'is invalid (a masked value has at least 8 characters, of a-z, A-Z, 0-9 and _+=/@:.~-)',
    ];
  if (isLongerThan(environment_scope, MAX_SCOPE)) problems.environment_scope = [tooLong(MAX_SCOPE)];
  else if (!SCOPE.test(environment_scope))
    problems.environment_scope = [
      "can contain only letters, digits, '-', '_', '/', '$', '{', '}', '.', '*' and spaces",
    ];
  if (isLongerThan(description ?? '', MAX_DESCRIPTION)) problems.description = [tooLong(MAX_DESCRIPTION)];
  return problems;
};

/** Returns what is wrong with the name of a variable, or null. */
export const keyProblemOf = (key: string): string | null => {
  if (key === '') return "can't be blank";
  if (isLongerThan(key, MAX_KEY)) return tooLong(MAX_KEY);
  return /^\w+$/.test(key) ? null : "can contain only letters, digits and '_'.";
};

/** Returns what is wrong with the value of a variable, or null. */
export const valueProblemOf = (value: string): string | null =>
  isLongerThan(value, MAX_VALUE) ? tooLong(MAX_VALUE) : null;

/** Returns what is wrong with variables that somebody gives to a pipeline or a job, or null. */
export const givenProblemOf = (
  variables: readonly { readonly key: string; readonly value: string }[],
  max: number,
): string | null => {
  if (variables.length > max) return `are too many (maximum is ${max})`;
  for (const { key, value } of variables) {
    const problem = keyProblemOf(key) ?? valueProblemOf(value);
    if (problem !== null) return `${key.slice(0, 100)} ${problem}`.trim();
  }
  return null;
};

const PURPOSE = 'ci_variable';

/** Values of variables are stored encrypted. */
export const sealValue = ({ services }: Pick<Context, 'services'>, value: string): Buffer =>
  encrypt(services.secretKey, value, PURPOSE);

/** Decrypts the value. @throws DomainError `unprocessable` if it was sealed with another secret key */
export const openValue = (
  { services }: Pick<Context, 'services'>,
  { sealed_value }: { readonly sealed_value: Buffer },
): string => decrypt(services.secretKey, sealed_value, PURPOSE);

/** The same, but null if it was sealed with another secret key. */
export const readableValue = (
  { services }: Pick<Context, 'services'>,
  { sealed_value }: { readonly sealed_value: Buffer },
): string | null => decryptOrNull(services.secretKey, sealed_value, PURPOSE);

/** Returns the value to show: null if the variable is hidden, or the value cannot be read. */
export const shownValue = (ctx: Pick<Context, 'services'>, row: Pick<CiVariableRow, 'hidden' | 'sealed_value'>) =>
  row.hidden ? null : readableValue(ctx, row);
