import { z } from 'zod';
import { type FieldErrors, tooLong } from '#platform/errors.ts';
import { factsOf } from './registry/define.ts';
import { aliases, isSetting, type SettingName, type Settings, settingNames, settingsSchema } from './registry.ts';
import { SECRET_MASK } from './secrets.ts';

/** Checked values by setting. */
export type Changes = Readonly<Partial<Record<SettingName, unknown>>>;

interface CheckedChanges {
  /** Whether any setting is given. */
  readonly known: boolean;
  readonly changes: Changes;
  /** The problems of each setting, by the name under which it is given. */
  readonly problems: FieldErrors;
}

/** All names under which settings can be given. A later name takes precedence over an earlier one. */
const NAMES: readonly string[] = [
  ...Array.from(aliases)
    .toSorted(([, left], [, right]) => Number(right.deprecated) - Number(left.deprecated))
    .map(([name]) => name),
  ...settingNames,
];

/**
 * Checks values that are given by any of the settings' names, each by itself and then with the present settings.
 * Unknown names are ignored. A setting's own name takes precedence over its other names, and deprecated names come last.
 */
export const checkedChanges = (given: Readonly<Record<string, unknown>>, present: Settings): CheckedChanges => {
  const names = new Map<SettingName, string>();
  let known = false;
  for (const name of NAMES) {
    const setting = isSetting(name) ? name : aliases.get(name)?.setting;
    if (!setting || normalized(setting, given[name]) === undefined) continue;
    known = true;
    // The mask changes nothing, nor does it take precedence over a new value under another name.
    if (!isSecret(setting) || given[name] !== SECRET_MASK) names.set(setting, name);
  }
  const changes: Partial<Record<SettingName, unknown>> = {};
  const problems: Record<string, string[]> = {};
  for (const [setting, name] of names) {
    const value = normalized(setting, given[name]);
    const form = aliases.get(name)?.form;
    const inForm = form ? form.schema.safeParse(value) : null;
    const converted = form && inForm?.success ? form.toSetting(inForm.data) : value;
    const parsed =
      inForm?.success === false
        ? inForm
        : settingsSchema.shape[setting].safeParse(completed(setting, converted, present));
    if (parsed.success) changes[setting] = parsed.data;
    else if (value === null || value === '') problems[name] = ["can't be blank"];
    else problems[name] = [...new Set(parsed.error.issues.map(problemOf))];
  }
  if (Object.keys(problems).length === 0) Object.assign(problems, conditionProblems(changes, present));
  return { known, changes, problems };
};

const isSecret = (setting: SettingName): boolean => factsOf(settingsSchema.shape[setting]).secret === true;

/** Null means empty for a text, and an empty secret is none. Other settings that need a value refuse null. */
const normalized = (setting: SettingName, value: unknown): unknown => {
  if (isSecret(setting)) return value === '' ? null : value;
  const schema = settingsSchema.shape[setting];
  if (value === '' && !schema.safeParse('').success && schema.safeParse(null).success) return null;
  if (value !== null || schema.safeParse(null).success) return value;
  return schema.safeParse('').success ? '' : null;
};

/** For a setting with named parts, only the given parts change. */
const completed = (setting: SettingName, value: unknown, present: Settings): unknown => {
  const hasParts = settingsSchema.shape[setting].def.innerType instanceof z.ZodObject;
  const old = present[setting];
  return hasParts && old instanceof Object && value instanceof Object && !Array.isArray(value)
    ? { ...old, ...value }
    : value;
};

/** Returns the problems of conditions among settings. Conditions that the changes do not concern are not checked. */
const conditionProblems = (changes: Changes, present: Settings): FieldErrors => {
  const result: Readonly<Record<string, unknown>> = { ...present, ...changes };
  const problems: Record<string, string[]> = {};
  const concerned = (...names: readonly string[]) => names.some((name) => name in changes);
  for (const name of settingNames) {
    const { requires = [], above } = factsOf(settingsSchema.shape[name]);
    for (const needed of requires) {
      if (concerned(name, needed) && result[name] === true && isUnset(result[needed])) {
        problems[needed] = [`is required while ${name} is on`];
      }
    }
    if (above !== undefined && concerned(name, above) && Number(result[name]) <= Number(result[above])) {
      problems[name] = [`must be greater than ${above}`];
    }
  }
  return problems;
};

const isUnset = (value: unknown): boolean =>
  value === null || value === '' || (Array.isArray(value) && value.length === 0);

const problemOf = (issue: z.core.$ZodIssue): string => {
  switch (issue.code) {
    case 'too_small':
      return issue.origin === 'string'
        ? `is too short (minimum is ${issue.minimum} characters)`
        : `must be greater than or equal to ${issue.minimum}`;
    case 'too_big':
      if (issue.origin === 'string') return tooLong(issue.maximum);
      return issue.origin === 'array'
        ? `has too many entries (maximum is ${issue.maximum})`
        : `must be less than or equal to ${issue.maximum}`;
    case 'invalid_value':
      return `does not have a valid value (allowed: ${issue.values.join(', ')})`;
    case 'custom':
    case 'invalid_format':
      return issue.message;
    default:
      return 'is invalid';
  }
};
