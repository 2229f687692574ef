import { z } from 'zod';
import { boolean, commaList, hash, integer, oneOf, text } from '#rest/params.ts';
import { route } from '#rest/route.ts';
import { updateSettings } from './commands.ts';
import { getSettingsAsAdministrator } from './queries.ts';
import { settingsRecord, toSettings } from './record.ts';
import { settingAliases, settingsSchema } from './registry.ts';

const tag = 'Settings';

/** Returns the parameter type for a setting. The registry validates the value. */
const parameterOf = (setting: z.core.$ZodType): z.ZodType => {
  if (setting instanceof z.ZodDefault) return parameterOf(setting.def.innerType);
  if (setting instanceof z.ZodNullable) return parameterOf(setting.def.innerType).nullable();
  if (setting instanceof z.ZodBoolean) return boolean();
  if (setting instanceof z.ZodNumber) return integer();
  if (setting instanceof z.ZodEnum) return oneOf(setting.options.map(String));
  if (setting instanceof z.ZodArray) return commaList(parameterOf(setting.element));
  if (setting instanceof z.ZodObject) {
    const inner: [string, z.core.$ZodType][] = Object.entries(setting.shape);
    return hash(Object.fromEntries(inner.map(([name, each]) => [name, parameterOf(each).optional()])));
  }
  // Access levels are a choice of numbers.
  return setting instanceof z.ZodUnion ? integer() : text();
};

const input = {
  ...Object.fromEntries(
    Object.entries(settingsSchema.shape).map(([name, setting]) => [
      name,
      parameterOf(setting)
        .optional()
        .describe(setting.description ?? ''),
    ]),
  ),
  ...Object.fromEntries(
    Object.entries(settingAliases).map(([alias, name]) => [alias, parameterOf(settingsSchema.shape[name]).optional()]),
  ),
  outbound_local_requests_allowlist_raw: z
    .unknown()
    .transform((value) => (typeof value === 'string' ? value.split(/[\s,;]+/).filter(Boolean) : value))
    .optional(),
};

export const routes = [
  route({
    method: 'GET',
    path: '/application/settings',
    tag,
    summary: 'Get the instance settings',
    admin: true,
    response: settingsRecord,
    run: async (ctx) => toSettings(await getSettingsAsAdministrator(ctx)),
  }),
  route({
    method: 'PUT',
    path: '/application/settings',
    tag,
    summary: 'Change instance settings',
    description: 'Unknown names are ignored. At least one known setting is required.',
    admin: true,
    input,
    response: settingsRecord,
    run: async (ctx, changes) => toSettings(await updateSettings(ctx, changes)),
  }),
];
