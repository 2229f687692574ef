import { defineCache } from '#platform/cache.ts';
import type { Context, Services } from '#platform/context.ts';
import type { Database } from '#platform/db/pool.ts';
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
  /** Whether the promises are fulfilled. */
  isRead: boolean;
}

/** The context of a transaction has a database of its own. */
type Reader = Pick<Context, 'services'> & Partial<Pick<Context, 'db'>>;

/** All settings, under one key. */
const cachedSettings = defineCache<'all', Cached>({ name: 'settings', limit: 1, ttlMs: 60_000 });

/**
 * Returns the instance settings, cached for 60 s in each process (specification 3 §8). A change empties the cache of
 * this process at once, and those of other processes by notification within a second.
 */
export const getSettings = (ctx: Reader): Promise<StoredSettings> => cached(ctx).settings;

/**
 * Returns the text of a secret setting, or null if it is not set. Never log or show it.
 *
 * @throws if it was stored with another instance key
 */
export const getSecretSetting = async (ctx: Reader, name: SettingName): Promise<string | null> => {
  const sealed = (await cached(ctx).secrets).get(name);
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

/**
 * A transaction reads settings that are not cached on its own connection: if transactions held all connections and waited
 * for settings, no connection would be left to read them.
 */
const cached = ({ services, db = services.db }: Reader): Cached => {
  const shared = cachedSettings(services).get('all') ?? readForAll(services);
  return shared.isRead || db === services.db ? shared : cachedOf(readSettings(db));
};

const readForAll = (services: Services): Cached => {
  const cache = cachedSettings(services);
  const read = readSettings(services.db);
  const entry = cachedOf(read);
  cache.set('all', entry);
  // A failed read must not stay cached.
  read.catch(() => cache.delete('all'));
  return entry;
};

const cachedOf = (read: Promise<Read>): Cached => {
  const settings = read.then(({ settings }) => settings);
  const secrets = read.then(({ secrets }) => secrets);
  const entry: Cached = { settings, secrets, isRead: false };
  read.then(
    () => {
      entry.isRead = true;
    },
    () => undefined,
  );
  // Callers await only one of them.
  for (const promise of [settings, secrets]) promise.catch(() => undefined);
  return entry;
};

const readSettings = async (db: Database): Promise<Read> => {
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
