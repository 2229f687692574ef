import { randomBytes } from 'node:crypto';
import type { Selectable } from 'kysely';
import type { Context } from '#platform/context.ts';
import type { ErrorTrackingClientKeys, ErrorTrackingSettings } from '#platform/db/tables.ts';
import { decryptOrNull } from '#platform/secrets.ts';
import { webUrl } from '#platform/urls.ts';

/** The changes of errors that hooks and mails are about. */
export const ERROR_CHANGES = ['created', 'regressed', 'resolved'] as const;
export type ErrorChange = (typeof ERROR_CHANGES)[number];

/** Whether a project takes errors, and whether this hub stores them. */
export type Settings = Pick<Selectable<ErrorTrackingSettings>, 'active' | 'integrated'>;

/** A new project takes errors as soon as it has a client key (docs/decisions/0043). */
export const DEFAULTS: Settings = { active: true, integrated: true };

/** A key with which applications report errors (specification 1 §2.8). */
export type ClientKeyRow = Pick<
  Selectable<ErrorTrackingClientKeys>,
  'id' | 'project_id' | 'sealed_key' | 'created_by_id' | 'created_at'
>;

/** Where applications report errors to: the part of their DSN before the id of the project. */
export const COLLECTOR = '/api/v4/error_tracking/collector';

/** Few applications need more than one key. The limit keeps lists short. */
export const MAX_CLIENT_KEYS = 100;
export const KEY_PURPOSE = 'error_tracking_client_key';

/** Some SDKs accept only letters, digits and `_` in a key (reference: error-tracking §1). */
export const newPublicKey = (): string => `glet_${randomBytes(20).toString('hex')}`;

/** Returns the key as applications send it, or null if it cannot be read. */
export const publicKeyOf = (
  { services }: Pick<Context, 'services'>,
  { sealed_key }: Pick<ClientKeyRow, 'sealed_key'>,
): string | null => decryptOrNull(services.secretKey, sealed_key, KEY_PURPOSE);

/** Returns the Data Source Name, from which an SDK derives the address that it reports to. */
export const dsnOf = (
  ctx: Pick<Context, 'services'>,
  key: Pick<ClientKeyRow, 'project_id' | 'sealed_key'>,
): string | null => {
  const publicKey = publicKeyOf(ctx, key);
  if (publicKey === null) return null;
  const url = new URL(`${ctx.services.urls.base}${COLLECTOR}/${key.project_id}`);
  url.username = publicKey;
  return url.href;
};

/** The most severe first (reference: error-tracking §6). */
export const LEVELS = ['fatal', 'error', 'warning', 'info', 'debug'] as const;
export type Level = (typeof LEVELS)[number];

/** The states of an error (reference: error-tracking §9). */
export const STATUSES = ['unresolved', 'resolved', 'resolved_in_next_release', 'ignored'] as const;
export type ErrorStatus = (typeof STATUSES)[number];

/** Returns the web URL of an error, in the form that existing servers use. */
export const errorWebUrl = (
  ctx: Pick<Context, 'services'>,
  { full_path }: { readonly full_path: string },
  { id }: { readonly id: number },
): string => webUrl(ctx, `${full_path}/-/error_tracking/${id}/details`);
