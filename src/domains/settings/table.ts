import { z } from 'zod';
import { factsOf } from './registry/define.ts';
import { subjects } from './registry.ts';

/** Returns the settings as Markdown tables by subject, for docs/settings.md. */
export const settingsTables = (): string =>
  Object.entries(subjects)
    .map(([title, settings]) =>
      [
        `## ${title}`,
        '',
        '| Setting | Values | Default | What it governs |',
        '|---|---|---|---|',
        ...Object.entries(settings).map(([name, setting]) => row(name, setting)),
        '',
      ].join('\n'),
    )
    .join('\n');

const row = (name: string, setting: z.ZodDefault): string =>
  `| \`${name}\` | ${allowed(setting)} | \`${JSON.stringify(setting.parse(undefined))}\` | ${setting.description ?? ''}${remarks(setting)} |`;

const remarks = (setting: z.core.$ZodType): string => {
  const { requires = [], deprecatedNames = [], otherNames = [], otherForms = {} } = factsOf(setting);
  const forms = Object.entries(otherForms);
  const names = (given: readonly string[]) => given.map((name) => `\`${name}\``).join(' and ');
  const others = [...otherNames, ...forms.filter(([, form]) => !form.deprecated).map(([name]) => name)];
  const deprecated = [...deprecatedNames, ...forms.filter(([, form]) => form.deprecated).map(([name]) => name)];
  return [
    ...(requires.length > 0 ? [` Requires ${names(requires)}.`] : []),
    ...(others.length > 0 ? [` Also called ${names(others)}.`] : []),
    ...(deprecated.length > 0 ? [` Deprecated name: ${names(deprecated)}.`] : []),
  ].join('');
};

const allowed = (setting: z.core.$ZodType): string => {
  if (setting instanceof z.ZodDefault) return allowed(setting.def.innerType);
  if (setting instanceof z.ZodNullable) return `${allowed(setting.def.innerType)}, or null`;
  if (setting instanceof z.ZodBoolean) return 'boolean';
  if (setting instanceof z.ZodNumber) return `${setting.minValue} to ${setting.maxValue}`;
  if (setting instanceof z.ZodEnum) return setting.options.map((option) => `\`${option}\``).join(', ');
  if (setting instanceof z.ZodLiteral) return [...setting.values].join(', ');
  if (setting instanceof z.ZodUnion) return setting.options.map(allowed).join(', ');
  if (setting instanceof z.ZodArray) return `list of ${allowed(setting.element)}`;
  return setting instanceof z.ZodObject || setting instanceof z.ZodRecord ? 'object' : 'text';
};
