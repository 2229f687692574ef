import { z } from 'zod';
import { isoTime } from '#platform/time.ts';
import { removedInV5 } from '#rest/v5.ts';
import type { StoredSettings } from './queries.ts';
import { factsOf, WITHOUT_EFFECT } from './registry/define.ts';
import { aliases, type SettingName, settingsSchema } from './registry.ts';

/** Describes a further name of a setting. */
export const sameAs = (setting: SettingName): string => {
  const { withoutEffect = false } = factsOf(settingsSchema.shape[setting]);
  return `The same as \`${setting}\`.${withoutEffect ? ` ${WITHOUT_EFFECT}` : ''}`;
};

/** All settings under all their names. */
export const settingsRecord = z
  .object({
    ...Object.fromEntries(
      Array.from(aliases, ([name, { setting, deprecated, form }]): [string, z.ZodType] => {
        const field = form
          ? form.schema.describe(form.description)
          : settingsSchema.shape[setting].describe(sameAs(setting));
        return [name, deprecated ? removedInV5(field, { replacedBy: setting }) : field];
      }),
    ),
    ...settingsSchema.shape,
    // Clients with static types read this number from a text.
    polling_interval_multiplier: z
      .string()
      .describe(settingsSchema.shape.polling_interval_multiplier.description ?? ''),
    id: z.int(),
    created_at: z.string(),
    updated_at: z.string(),
  })
  .meta({ id: 'ApplicationSettings' });

/** Writes a number as text with at least one decimal. */
const decimal = (value: number): string => (Number.isInteger(value) ? value.toFixed(1) : String(value));

export const toSettings = (settings: StoredSettings): z.output<typeof settingsRecord> => {
  const { polling_interval_multiplier } = settings;
  return {
    ...settings,
    ...Object.fromEntries(
      Array.from(aliases, ([name, { setting, form }]) => [
        name,
        form ? form.fromSetting(settings[setting]) : settings[setting],
      ]),
    ),
    polling_interval_multiplier: decimal(polling_interval_multiplier),
    created_at: isoTime(settings.created_at),
    updated_at: isoTime(settings.updated_at),
  };
};
