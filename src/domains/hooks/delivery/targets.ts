import type { KeyObject } from 'node:crypto';
import { sql } from 'kysely';
import type { Services } from '#platform/context.ts';
import type { Database } from '#platform/db/pool.ts';
import { decrypt, decryptOrNull } from '#platform/secrets.ts';
import { isoTime } from '#platform/time.ts';
import { credentialsOf, fillUrl } from '../address.ts';
import { signingKey } from '../signing.ts';

/** A hook with unsealed secrets, ready for sending. Keep it in memory only and never log it. */
export interface Target {
  readonly id: number;
  /** Changes with every edit of the hook. */
  readonly version: string;
  /** A system hook. */
  readonly isSystem: boolean;
  readonly url: string;
  /** The URL for logs and records, with credentials masked. */
  readonly shownUrl: string;
  readonly verifyTls: boolean;
  readonly template: string | null;
  readonly token: string | null;
  readonly headers: readonly { readonly key: string; readonly value: string }[];
  readonly signingKey: KeyObject | null;
  readonly previousKey: { readonly key: KeyObject; readonly untilMs: number } | null;
  /** The texts to mask in logs, because receivers may echo them. */
  readonly secrets: readonly string[];
}

/** Beyond this, all are loaded anew. */
const MAX_TARGETS = 5_000;

/** The targets of the hooks in use. A target is loaded again after its hook was edited. */
export class Targets {
  readonly #services: Services;
  readonly #db: Database;
  readonly #known = new Map<number, Target>();

  constructor(services: Services, db: Database) {
    this.#services = services;
    this.#db = db;
  }

  /** Returns the targets of these versions by hook. Deleted hooks are absent. */
  async of(
    hooks: readonly { readonly webhook_id: number; readonly version: string }[],
  ): Promise<ReadonlyMap<number, Target | Error>> {
    const found = new Map<number, Target | Error>();
    const missing = new Set<number>();
    for (const { webhook_id, version } of hooks) {
      const known = this.#known.get(webhook_id);
      if (known?.version === version) found.set(webhook_id, known);
      else missing.add(webhook_id);
    }
    if (missing.size === 0) return found;
    if (this.#known.size > MAX_TARGETS) this.#known.clear();
    for (const [id, target] of await loadTargets(this.#services, this.#db, [...missing])) {
      if (!(target instanceof Error)) this.#known.set(id, target);
      found.set(id, target);
    }
    return found;
  }
}

/** Returns hooks by id. A hook whose secrets cannot be unsealed becomes an error: the instance key has changed. */
export const loadTargets = async (
  services: Pick<Services, 'secretKey' | 'log'>,
  db: Database,
  ids: readonly number[],
): Promise<ReadonlyMap<number, Target | Error>> => {
  const rows = await db
    .selectFrom('webhooks')
    .select([
      'id',
      'url',
      'sealed_url',
      'enable_ssl_verification',
      'custom_webhook_template',
      'token',
      'signing_token',
      'previous_signing_token',
      'previous_signing_token_until',
      'updated_at',
      'namespace_id',
      'project_id',
    ])
    .where(sql<boolean>`id = any (${ids}::bigint[])`)
    .execute();
  const values = await db
    .selectFrom('webhook_values')
    .selectAll()
    .where(sql<boolean>`webhook_id = any (${ids}::bigint[])`)
    .orderBy('key')
    .execute();
  const targets = new Map<number, Target | Error>();
  const open = (sealed: Buffer | null) => (sealed ? decrypt(services.secretKey, sealed) : null);
  for (const row of rows) {
    try {
      const mine = values
        .filter(({ webhook_id }) => webhook_id === row.id)
        .map(({ kind, key, value }) => ({ kind, key, value: open(value) ?? '' }));
      const variables = mine.filter(({ kind }) => kind === 'url_variable');
      const headers = mine.filter(({ kind }) => kind === 'header');
      const url = fillUrl(open(row.sealed_url) ?? row.url, new Map(variables.map(({ key, value }) => [key, value])));
      const token = open(row.token);
      const signingToken = open(row.signing_token);
      // It only signs along. If its key was lost, the new token signs alone.
      const previous = row.previous_signing_token && decryptOrNull(services.secretKey, row.previous_signing_token);
      const previousKey = previous === null ? null : signingKey(previous);
      targets.set(row.id, {
        id: row.id,
        version: row.updated_at,
        isSystem: row.namespace_id === null && row.project_id === null,
        url,
        shownUrl: row.url,
        verifyTls: row.enable_ssl_verification,
        template: row.custom_webhook_template,
        token: token?.replace(/[\r\n]/g, '') ?? null,
        headers,
        signingKey: signingToken === null ? null : signingKey(signingToken),
        previousKey:
          previousKey && row.previous_signing_token_until !== null
            ? { key: previousKey, untilMs: Date.parse(isoTime(row.previous_signing_token_until)) }
            : null,
        secrets: formsOf([...mine.map(({ value }) => value), token ?? '', ...credentialsOf(url)]),
      });
    } catch (error) {
      services.log.error({ err: error, webhook_id: row.id }, 'the secrets of a hook cannot be read');
      targets.set(row.id, new Error('The secrets of this hook cannot be read. Set them again.'));
    }
  }
  return targets;
};

/** Returns each secret as it is and in its JSON and URL encodings, longest first. */
const formsOf = (secrets: readonly string[]): string[] =>
  [...new Set(secrets.flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)]))]
    .filter((secret) => secret.length >= MIN_SECRET_LENGTH)
    .sort((left, right) => right.length - left.length);

/** Shorter values occur everywhere by chance. Masking them would only garble the log. */
const MIN_SECRET_LENGTH = 4;
