import { z } from 'zod';
import { builder, type InputFields } from '#graphql/builder.ts';
import { listConnection } from '#graphql/connection.ts';
import { gid } from '#graphql/ids.ts';
import { mutationField } from '#graphql/mutation.ts';
import { listSettingChanges, type SettingChangeRow } from './audit.ts';
import { updateSettings } from './commands.ts';
import { getSettingsAsAdministrator, type StoredSettings } from './queries.ts';
import { type SettingName, settingNames, settingsSchema } from './registry.ts';

type Kind = 'Boolean' | 'Int' | 'IntOrNull' | 'Float' | 'String' | 'StringOrNull' | 'StringList' | 'JSON';

const kindOf = (setting: z.core.$ZodType): Kind => {
  if (setting instanceof z.ZodDefault) return kindOf(setting.def.innerType);
  if (setting instanceof z.ZodNullable) return kindOf(setting.def.innerType) === 'Int' ? 'IntOrNull' : 'StringOrNull';
  if (setting instanceof z.ZodBoolean) return 'Boolean';
  if (setting instanceof z.ZodNumber) return setting.format === 'safeint' ? 'Int' : 'Float';
  if (setting instanceof z.ZodUnion) return 'Int';
  if (setting instanceof z.ZodArray) return 'StringList';
  return setting instanceof z.ZodObject || setting instanceof z.ZodRecord ? 'JSON' : 'String';
};

const listOf = (value: unknown): string[] => (Array.isArray(value) ? value.map(String) : []);

const settings = settingNames.map((name) => ({
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
      Float: (name: SettingName, description: string) =>
        t.float({ nullable: false, description, resolve: (row) => Number(row[name]) }),
      String: (name: SettingName, description: string) =>
        t.string({ nullable: false, description, resolve: (row) => String(row[name]) }),
      StringOrNull: (name: SettingName, description: string) =>
        t.string({ nullable: true, description, resolve: (row) => (row[name] === null ? null : String(row[name])) }),
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

/** One entry of the audit list. The users domain adds its author. */
export const SettingChangeRef = builder.objectRef<SettingChangeRow>('ApplicationSettingsChange').implement({
  description: 'A change of instance settings.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: ({ id }) => gid('ApplicationSettingsChange', id) }),
    username: t.exposeString('username', {
      nullable: true,
      description: 'The user name of the author at the time of the change. Null for the hub itself.',
    }),
    changed: t.exposeStringList('changed', {
      nullable: false,
      description: 'The names of the settings that changed. Values are not recorded.',
    }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
  }),
});

const SettingChangeConnection = builder.connectionObject(
  { type: SettingChangeRef, name: 'ApplicationSettingsChangeConnection' },
  { name: 'ApplicationSettingsChangeEdge' },
);

builder.queryField('applicationSettingsChanges', (t) =>
  t.connection(
    {
      type: SettingChangeRef,
      nullable: true,
      description: 'The changes of instance settings, the latest first. Null for callers who are no administrators.',
      resolve: (_root, args, ctx, info) =>
        ctx.actor.isAdmin ? listConnection(args, info, listSettingChanges(ctx)) : null,
    },
    SettingChangeConnection,
  ),
);

const inputFields = (t: InputFields) => {
  const make = {
    Boolean: (description: string) => t.boolean({ description }),
    Int: (description: string) => t.int({ description }),
    IntOrNull: (description: string) => t.int({ description }),
    Float: (description: string) => t.float({ description }),
    String: (description: string) => t.string({ description }),
    StringOrNull: (description: string) => t.string({ description }),
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
    for (const { name, field } of settings) changes[name] = Reflect.get(input, field);
    return { applicationSettings: await updateSettings(ctx, changes) };
  },
});
