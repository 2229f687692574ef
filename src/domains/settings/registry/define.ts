import { z } from 'zod';
import { isStorable } from '#platform/values/storable.ts';

/**
 * The facts about a setting in its entry of the registry, besides its type, bounds and default. One entry is the only
 * place that knows these things: the checks, both interfaces and docs/settings.md derive from it.
 */
export interface SettingFacts {
  /** Stored, checked and shown, but read by nothing. */
  readonly withoutEffect?: true;
  /** EncodedJson only: encrypted in the database, and shown as set or not. */
  readonly secret?: true;
  /** The number is the id of such a record, which must exist. The setting is unset when the record is deleted. */
  readonly names?: NamedKind;
  /** For a switch: these settings must have a value while it is on. */
  readonly requires?: readonly string[];
  /** For a number: it must be larger than that of this setting. */
  readonly above?: string;
  /** Names that the specification deprecates. They are accepted, and shown beside the setting. */
  readonly deprecatedNames?: readonly string[];
  /** Names that existing tools use instead of the specification's. They are accepted, and shown beside the setting. */
  readonly otherNames?: readonly string[];
  /** Other forms of the same value, by name. They are accepted, and shown beside the setting. */
  readonly otherForms?: Readonly<Record<string, OtherForm>>;
}

export type NamedKind = 'group' | 'project';

/** A setting under another name and in another form, such as a list as text. */
export interface OtherForm {
  readonly schema: z.ZodType;
  readonly description: string;
  readonly deprecated?: true;
  /** Converts a checked value of this form. */
  toSetting(value: unknown): unknown;
  /** Converts the value of the setting. */
  fromSetting(value: unknown): unknown;
}

/** Marks settings without effect, in OpenAPI, GraphQL and docs/settings.md. */
export const WITHOUT_EFFECT = '**Without effect**: there is nothing here that it governs.';

const facts = new WeakMap<z.core.$ZodType, SettingFacts>();

/** Returns what the registry says about a setting of `settingsSchema`. */
export const factsOf = (setting: z.core.$ZodType): SettingFacts => facts.get(setting) ?? {};

/** Defines a setting of any type. The shorter forms below cover most. */
export const setting = <T extends z.ZodType>(schema: T, description: string, given: SettingFacts = {}): T => {
  const described = schema.describe(given.withoutEffect ? `${description} ${WITHOUT_EFFECT}` : description);
  facts.set(described, given);
  return described;
};

/** On or off. */
export const flag = (usual: boolean, description: string, given?: SettingFacts) =>
  setting(z.boolean().default(usual), description, given);

/** A whole number from `min` to `max`. */
export const whole = (min: number, max: number, usual: number, description: string, given?: SettingFacts) =>
  setting(z.int().min(min).max(max).default(usual), description, given);

/** A whole number from `min` to `max`, or null. */
export const wholeOrNull = (min: number, max: number, description: string, given?: SettingFacts) =>
  setting(z.int().min(min).max(max).nullable().default(null), description, given);

/** The id of a record that exists, or null. */
export const idOrNull = (names: NamedKind, description: string, given?: SettingFacts) =>
  wholeOrNull(1, 2_147_483_647, description, { ...given, names });

/** Text that Postgres can store: without NUL and lone surrogates. */
export const storable = (max: number) => z.string().max(max).refine(isStorable, 'is invalid');

/** Text of at most `max` characters, empty by default. */
export const words = (max: number, description: string, given?: SettingFacts) =>
  setting(storable(max).default(''), description, given);

/** A secret of at most 1,000 characters, or null. */
export const secret = (description: string, given?: SettingFacts) =>
  setting(storable(1_000).nullable().default(null), `${description} Never shown.`, { ...given, secret: true });
