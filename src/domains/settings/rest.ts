import { z } from 'zod';
import {
  anyHash,
  boolean,
  commaList,
  decimal,
  hash,
  integer,
  oneOf,
  oneOfNumbers,
  refusingNull,
  text,
  wordList,
} from '#rest/params.ts';
import { route } from '#rest/route.ts';
import { removedInV5 } from '#rest/v5.ts';
import { updateSettings } from './commands.ts';
import { getSettingsAsAdministrator } from './queries.ts';
import { sameAs, settingsRecord, toSettings } from './record.ts';
import { aliases, settingNames, settingsSchema } from './registry.ts';

const tag = 'Settings';

/** Returns the parameter type for a setting. The registry validates the value. */
const parameterOf = (setting: z.core.$ZodType): z.ZodType => refusingNull(kindOf(setting));

const kindOf = (setting: z.core.$ZodType): z.ZodType => {
  if (setting instanceof z.ZodDefault) return kindOf(setting.def.innerType);
  if (setting instanceof z.ZodNullable) return kindOf(setting.def.innerType).nullable();
  if (setting instanceof z.ZodBoolean) return boolean();
  if (setting instanceof z.ZodNumber) return setting.format === 'safeint' ? integer() : decimal();
  if (setting instanceof z.ZodEnum) return oneOf(setting.options.map(String));
  if (setting instanceof z.ZodUnion) return oneOfNumbers(setting.options.flatMap(numbersOf));
  if (setting instanceof z.ZodArray) {
    const element = parameterOf(setting.element);
    return setting.element instanceof z.ZodObject ? commaList(element) : wordList(element);
  }
  if (setting instanceof z.ZodRecord) return anyHash().pipe(z.record(z.string(), parameterOf(setting.valueType)));
  if (setting instanceof z.ZodObject) {
    const inner: [string, z.core.$ZodType][] = Object.entries(setting.shape);
    return hash(Object.fromEntries(inner.map(([name, each]) => [name, parameterOf(each).optional()])));
  }
  // Null empties a text.
  return text().nullable();
};

const numbersOf = (option: z.core.$ZodType): number[] =>
  option instanceof z.ZodLiteral ? [...option.values].map(Number) : [];

const input = {
  ...Object.fromEntries(
    settingNames.map((name) => [
      name,
      parameterOf(settingsSchema.shape[name])
        .optional()
        .describe(settingsSchema.shape[name].description ?? ''),
    ]),
  ),
  ...Object.fromEntries(
    Array.from(aliases, ([name, { setting, deprecated, form }]) => {
      const parameter = parameterOf(form?.schema ?? settingsSchema.shape[setting])
        .optional()
        .describe(form?.description ?? sameAs(setting));
      return [name, deprecated ? removedInV5(parameter, { replacedBy: setting }) : parameter];
    }),
  ),
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
