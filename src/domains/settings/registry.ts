import { z } from 'zod';
import { factsOf, type OtherForm } from './registry/define.ts';
import { elsewhere } from './registry/elsewhere.ts';
import { errorTracking } from './registry/error-tracking.ts';
import { instance } from './registry/instance.ts';
import { limits } from './registry/limits.ts';
import { network } from './registry/network.ts';
import { pipelines } from './registry/pipelines.ts';
import { projects } from './registry/projects.ts';
import { repositories } from './registry/repositories.ts';
import { signIn } from './registry/sign-in.ts';
import { tokens } from './registry/tokens.ts';
import { transfers } from './registry/transfers.ts';
import { users } from './registry/users.ts';

/** The settings by subject, as docs/settings.md lists them. */
export const subjects = {
  'The instance': instance,
  'Registration and users': users,
  'Sign-in and access': signIn,
  'Tokens and OAuth': tokens,
  'Projects and groups': projects,
  Repositories: repositories,
  'Exports and imports': transfers,
  Pipelines: pipelines,
  'Webhooks and other outgoing requests': network,
  'Rate and size limits': limits,
  'Error tracking': errorTracking,
  'Not part of this product': elsewhere,
} as const;

/**
 * Every instance setting: allowed values, default and description. To add a setting, add an entry to the file of its
 * subject. Names come from the specification (3 §2.4) or, where it lists none, from what existing tools send. Settings
 * of this product's own say so.
 */
export const settingsSchema = z.object({
  ...instance,
  ...users,
  ...signIn,
  ...tokens,
  ...projects,
  ...repositories,
  ...transfers,
  ...pipelines,
  ...network,
  ...limits,
  ...errorTracking,
  ...elsewhere,
});

export type Settings = z.output<typeof settingsSchema>;
export type SettingName = keyof Settings;

export const isSetting = (name: string): name is SettingName => Object.hasOwn(settingsSchema.shape, name);

export const settingNames: readonly SettingName[] = Object.keys(settingsSchema.shape).filter(isSetting);

/** The settings that are written only. */
export const secretNames: readonly SettingName[] = settingNames.filter(
  (name) => factsOf(settingsSchema.shape[name]).secret === true,
);

/** A further name of a setting, which is accepted and shown like the setting itself. */
export interface Alias {
  readonly setting: SettingName;
  readonly deprecated: boolean;
  /** Null if the value has the same form. */
  readonly form: OtherForm | null;
}

/** All further names of settings. */
export const aliases: ReadonlyMap<string, Alias> = new Map(
  settingNames.flatMap((setting): [string, Alias][] => {
    const { deprecatedNames = [], otherNames = [], otherForms = {} } = factsOf(settingsSchema.shape[setting]);
    return [
      ...deprecatedNames.map((name): [string, Alias] => [name, { setting, deprecated: true, form: null }]),
      ...otherNames.map((name): [string, Alias] => [name, { setting, deprecated: false, form: null }]),
      ...Object.entries(otherForms).map(([name, form]): [string, Alias] => [
        name,
        { setting, deprecated: form.deprecated === true, form },
      ]),
    ];
  }),
);
