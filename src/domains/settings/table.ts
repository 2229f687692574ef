import { z } from 'zod';
import { settingAliases, settingsSchema } from './registry.ts';

/** Returns the settings as a Markdown table, for docs/settings.md. */
export const settingsTable = (): string => {
  const rows = Object.entries(settingsSchema.shape).map(([name, setting]) => {
    const aliases = Object.entries(settingAliases).flatMap(([alias, meant]) =>
      meant === name ? [`\`${alias}\``] : [],
    );
    const also = aliases.length > 0 ? ` Also called ${aliases.join(', ')}.` : '';
    return `| \`${name}\` | ${allowed(setting)} | \`${JSON.stringify(setting.parse(undefined))}\` | ${setting.description ?? ''}${also} |`;
  });
  return ['| Setting | Values | Default | What it governs |', '|---|---|---|---|', ...rows, ''].join('\n');
};

const allowed = (setting: z.core.$ZodType): string => {
  if (setting instanceof z.ZodDefault) return allowed(setting.def.innerType);
  if (setting instanceof z.ZodBoolean) return 'boolean';
  if (setting instanceof z.ZodNumber) return `${setting.minValue} to ${setting.maxValue}`;
  if (setting instanceof z.ZodEnum) return setting.options.map((option) => `\`${option}\``).join(', ');
  if (setting instanceof z.ZodArray) return `list of ${allowed(setting.element)}`;
  return setting instanceof z.ZodObject ? 'object' : 'text';
};
