import { sql } from 'kysely';
import type { z } from 'zod';
import type { Context } from '#platform/context.ts';
import { badRequest, forbidden, invalid } from '#platform/errors.ts';
import { settingsUpdated } from './events.ts';
import { forgetSettings, getSettings, type StoredSettings } from './queries.ts';
import { type SettingName, settingAliases, settingsSchema } from './registry.ts';

/** Postgres channel that notifies processes when settings change. */
export const SETTINGS_CHANNEL = 'settings';

const aliases = new Map<string, SettingName>(Object.entries(settingAliases));
const known = new Set<string>(Object.keys(settingsSchema.shape));

/**
 * Changes settings (specification 3 §4.7). Ignores unknown names. Administrators only.
 *
 * @throws `forbidden`, `bad_request` when no known setting is given, `invalid` by setting
 */
export const updateSettings = async (
  ctx: Context,
  changes: Readonly<Record<string, unknown>>,
): Promise<StoredSettings> => {
  if (!ctx.actor.isAdmin) throw forbidden();
  const wanted: Record<string, unknown> = {};
  forgetSettings(ctx.services);
  const present: Readonly<Record<string, unknown>> = { ...(await getSettings(ctx)) };
  for (const [name, value] of Object.entries(changes)) {
    const setting = aliases.get(name) ?? name;
    // The canonical name takes precedence over its alias when both are sent.
    if (known.has(setting) && value !== undefined && !(setting !== name && setting in changes)) {
      wanted[setting] = isHash(value) && isHash(present[setting]) ? { ...present[setting], ...value } : value;
    }
  }
  if (Object.keys(wanted).length === 0) throw badRequest('at least one known setting must be provided');
  const parsed = settingsSchema.partial().safeParse(wanted);
  if (!parsed.success) {
    const fields: Record<string, string[]> = {};
    for (const issue of parsed.error.issues) {
      const field = String(issue.path[0] ?? 'base');
      fields[field] = [...(fields[field] ?? []), describe(issue)];
    }
    throw invalid(fields);
  }
  const values = Object.fromEntries(Object.keys(wanted).map((name) => [name, Reflect.get(parsed.data, name)]));
  await ctx.transaction(async (tx) => {
    await tx.db
      .updateTable('application_settings')
      .set({ attributes: sql`attributes || ${JSON.stringify(values)}::jsonb`, updated_at: sql`now()` })
      .execute();
    await sql`select pg_notify(${SETTINGS_CHANNEL}, '')`.execute(tx.db);
    tx.emit(settingsUpdated, {
      subject: { type: 'ApplicationSetting', id: 1 },
      payload: { changed: Object.keys(values) },
    });
  });
  forgetSettings(ctx.services);
  return getSettings(ctx);
};

/** For a setting with keys, only the given keys change. */
const isHash = (value: unknown): value is object =>
  typeof value === 'object' && value !== null && !Array.isArray(value);

const describe = (issue: z.core.$ZodIssue): string => (issue.message ? issue.message.toLowerCase() : 'is invalid');
