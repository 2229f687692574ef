import { z } from 'zod';
import { builder, type Types } from '#graphql/builder.ts';
import { mutationField } from '#graphql/mutation.ts';
import { updateSettings } from './commands.ts';
import { getSettingsAsAdministrator, type StoredSettings } from './queries.ts';
import { type SettingName, settingsSchema } from './registry.ts';

type Kind = 'Boolean' | 'Int' | 'IntOrNull' | 'String' | 'StringList' | 'JSON';

const kindOf = (setting: z.core.$ZodType): Kind => {
  if (setting instanceof z.ZodDefault) return kindOf(setting.def.innerType);
  if (setting instanceof z.ZodNullable) return 'IntOrNull';
  if (setting instanceof z.ZodBoolean) return 'Boolean';
  if (setting instanceof z.ZodNumber) return 'Int';
  if (setting instanceof z.ZodArray) return 'StringList';
  return setting instanceof z.ZodObject ? 'JSON' : 'String';
};

const listOf = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : []);

const isSetting = (name: string): name is SettingName => name in settingsSchema.shape;

const settings = Object.keys(settingsSchema.shape)
  .filter(isSetting)
  .map((name) => ({
    name,
    field: name.replace(/_([a-z0-9])/g, (_, letter: string) => letter.toUpperCase()),
    kind: kindOf(settingsSchema.shape[name]),
    description: settingsSchema.shape[name].description ?? '',
  }));

const SettingsRef = builder.objectRef<StoredSettings>('ApplicationSettings').implement({
  description: 'The settings of the instance.',
  fields: (t) => {
    const make = {
      Boolean: (name: SettingName, description: string) =>
        t.boolean({ nullable: false, description, resolve: (row) => row[name] === true }),
      Int: (name: SettingName, description: string) =>
        t.int({ nullable: false, description, resolve: (row) => Number(row[name]) }),
      IntOrNull: (name: SettingName, description: string) =>
        t.int({ nullable: true, description, resolve: (row) => (row[name] === null ? null : Number(row[name])) }),
      String: (name: SettingName, description: string) =>
        t.string({ nullable: false, description, resolve: (row) => String(row[name]) }),
      StringList: (name: SettingName, description: string) =>
        t.stringList({ nullable: false, description, resolve: (row) => listOf(row[name]) }),
      JSON: (name: SettingName, description: string) =>
        t.field({ type: 'JSON', nullable: false, description, resolve: (row) => row[name] }),
    } satisfies Record<Kind, unknown>;
    return {
      createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
      updatedAt: t.expose('updated_at', { type: 'Time', nullable: false }),
      ...Object.fromEntries(
        settings.map(({ name, field, kind, description }) => [field, make[kind](name, description)]),
      ),
    };
  },
});

builder.queryField('applicationSettings', (t) =>
  t.field({
    type: SettingsRef,
    nullable: true,
    description: 'Visible to administrators; null for other callers.',
    resolve: (_root, _args, ctx) => (ctx.actor.isAdmin ? getSettingsAsAdministrator(ctx) : null),
  }),
);

const inputFields = (t: PothosSchemaTypes.InputFieldBuilder<Types, 'InputObject'>) => {
  const make = {
    Boolean: (description: string) => t.boolean({ description }),
    Int: (description: string) => t.int({ description }),
    IntOrNull: (description: string) => t.int({ description }),
    String: (description: string) => t.string({ description }),
    StringList: (description: string) => t.stringList({ description }),
    JSON: (description: string) => t.field({ type: 'JSON', description }),
  } satisfies Record<Kind, unknown>;
  return Object.fromEntries(settings.map(({ field, kind, description }) => [field, make[kind](description)]));
};

mutationField('applicationSettingsUpdate', {
  description: 'Changes settings of the instance. Settings that are not given stay unchanged. Administrators only.',
  input: inputFields,
  payload: { applicationSettings: SettingsRef },
  run: async (ctx, input) => {
    const changes: Record<string, unknown> = {};
    for (const { name, field, kind } of settings) {
      const value: unknown = Reflect.get(input, field);
      if (value !== undefined && (value !== null || kind === 'IntOrNull')) changes[name] = value;
    }
    return { applicationSettings: await updateSettings(ctx, changes) };
  },
});
