import { defineCache } from '#platform/cache.ts';
import type { Context, Services } from '#platform/context.ts';
import { forbidden } from '#platform/errors.ts';
import { type SettingName, type Settings, settingsSchema } from './registry.ts';
import { openSetting, SECRET_MASK, type SealedSecrets, sealedSecrets } from './secrets.ts';

/** The settings. Secrets are null, or a mask if they are set: `getSecretSetting` returns their text. */
export interface StoredSettings extends Settings {
  readonly id: number;
  readonly created_at: string;
  readonly updated_at: string;
}

interface Read {
  readonly settings: StoredSettings;
  readonly secrets: SealedSecrets;
}

interface Cached {
  readonly settings: Promise<StoredSettings>;
  readonly secrets: Promise<SealedSecrets>;
}

/** All settings, under one key. */
const cachedSettings = defineCache<'all', Cached>({ name: 'settings', limit: 1, ttlMs: 60_000 });

/**
 * Returns the instance settings, cached for 60 s in each process (specification 3 §8). A change empties the cache of
 * this process at once, and those of other processes by notification within a second.
 */
export const getSettings = ({ services }: Pick<Context, 'services'>): Promise<StoredSettings> =>
  cached(services).settings;

/**
 * Returns the text of a secret setting, or null if it is not set. Never log or show it.
 *
 * @throws if it was stored with another instance key
 */
export const getSecretSetting = async (ctx: Pick<Context, 'services'>, name: SettingName): Promise<string | null> => {
  const sealed = (await cached(ctx.services).secrets).get(name);
  return sealed === undefined ? null : openSetting(ctx, name, sealed);
};

/** Empties the settings cache of this process, so that the next reader reads the table. */
export const forgetSettings = (services: Services): void => {
  cachedSettings(services).delete('all');
};

/** Returns the settings for `GET /application/settings`. Administrators only. @throws `forbidden` */
export const getSettingsAsAdministrator = (ctx: Context): Promise<StoredSettings> => {
  if (!ctx.actor.isAdmin) throw forbidden();
  return getSettings(ctx);
};

const cached = (services: Services): Cached => {
  const cache = cachedSettings(services);
  const present = cache.get('all');
  if (present) return present;
  const read = readSettings(services);
  const entry = { settings: read.then(({ settings }) => settings), secrets: read.then(({ secrets }) => secrets) };
  cache.set('all', entry);
  // A failed read must not stay cached.
  for (const promise of Object.values(entry)) promise.catch(() => cache.delete('all'));
  return entry;
};

const readSettings = async ({ db }: Services): Promise<Read> => {
  const row = await db
    .selectFrom('application_settings')
    .select(['id', 'attributes', 'created_at', 'updated_at'])
    .executeTakeFirstOrThrow();
  const attributes = attributesOf(row);
  return {
    settings: { ...settingsOf(attributes), id: row.id, created_at: row.created_at, updated_at: row.updated_at },
    secrets: sealedSecrets(attributes),
  };
};

/** The stored attributes of the row: what was ever set, with encrypted secrets. */
export const attributesOf = ({ attributes }: { readonly attributes: unknown }): object =>
  attributes instanceof Object ? attributes : {};

/**
 * Returns all settings from the stored attributes, with secrets masked. Values that an older version accepted and this one
 * does not become their defaults, so that the hub works and an administrator can set them again.
 */
export const settingsOf = (attributes: object): Settings => {
  const masks = Object.fromEntries(Array.from(sealedSecrets(attributes).keys(), (name) => [name, SECRET_MASK]));
  const stored = { ...attributes, ...masks };
  const { data, error } = settingsSchema.safeParse(stored);
  if (data) return data;
  const invalid = new Set(error.issues.map(({ path: [name] }) => name));
  return settingsSchema.parse(Object.fromEntries(Object.entries(stored).filter(([name]) => !invalid.has(name))));
};
