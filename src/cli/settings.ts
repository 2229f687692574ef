import { text } from 'node:stream/consumers';
import { z } from 'zod';
import { type Api, ApiError } from './api.ts';

const PATH = '/application/settings';
const settings = z.record(z.string(), z.unknown());

/** Returns the lines of `settings get`: all settings as `name=value`, or the value of one. @throws ApiError */
export const getSettings = async (api: Api, name?: string): Promise<string[]> => {
  const values = await api.rest(settings, 'GET', PATH);
  if (name !== undefined) return [shown(settingOf(values, name))];
  return Object.keys(values)
    .toSorted()
    .map((each) => `${each}=${shown(values[each])}`);
};

/**
 * Changes settings given as `name=value`, all of them or none. `name[key]=value` changes a part of a setting, and the
 * value `-` is read from standard input. Returns the new values as lines.
 * @throws ApiError also for a name that the hub does not know, which the interface ignores
 */
export const setSettings = async (api: Api, assignments: readonly string[]): Promise<string[]> => {
  const given: Record<string, string> = {};
  if (assignments.filter((each) => each.endsWith('=-')).length > 1) {
    throw new ApiError('Only one value can be read from standard input');
  }
  for (const assignment of assignments) {
    const equals = assignment.indexOf('=');
    if (equals <= 0) throw new ApiError(`${assignment} is not of the form NAME=VALUE`);
    const value = assignment.slice(equals + 1);
    given[assignment.slice(0, equals)] = value === '-' ? (await text(process.stdin)).trimEnd() : value;
  }
  const names = [...new Set(Object.keys(given).map((name) => name.replace(/\[.*$/, '')))];
  const before = await api.rest(settings, 'GET', PATH);
  for (const name of names) settingOf(before, name);
  const changes = Object.fromEntries(
    Object.entries(given).map(([name, value]) => [name, typeof before[name] === 'string' ? value : asPrinted(value)]),
  );
  const after = await api.rest(settings, 'PUT', PATH, changes);
  return names.map((name) => `${name}=${shown(after[name])}`);
};

const settingOf = (values: z.output<typeof settings>, name: string): unknown => {
  if (!Object.hasOwn(values, name)) throw new ApiError(`There is no setting ${name}`);
  return values[name];
};

/** Reads null, lists and objects as they are printed. The hub reads other values from text. */
const asPrinted = (value: string): unknown => {
  if (!/^(?:null$|[[{])/.test(value)) return value;
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
};

/** Text as it is, everything else as JSON. */
const shown = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));
