import type { CryptoKey } from 'jose';
import { sql } from 'kysely';
import { z } from 'zod';
import { requireAdministrator } from '#platform/caller/administrators.ts';
import type { Context, Services, Tx } from '#platform/context.ts';
import { decrypt, decryptOrNull, encrypt } from '#platform/secrets.ts';
import { toJsonb } from '#platform/values/to-jsonb.ts';

/** The algorithm that every OpenID Connect client must support. */
export const SIGNING_ALGORITHM = 'RS256';

export interface SigningKey {
  readonly kid: string;
  readonly key: CryptoKey;
}

const publicJwk = z.object({ kty: z.literal('RSA'), n: z.string(), e: z.string() });
export type PublicJwk = z.output<typeof publicJwk> & {
  readonly kid: string;
  readonly use: 'sig';
  readonly alg: typeof SIGNING_ALGORITHM;
};

/** Returns the key that signs: the newest one. Creates the first one on demand, and another if it cannot be read. */
export const signingKey = async (ctx: Context): Promise<SigningKey> => {
  let stored = (await newestKey(ctx)) ?? (await ctx.transaction((tx) => makeKey(tx, { unlessThere: true })));
  const known = opened.get(ctx.services);
  if (known?.kid === stored.kid) return known;
  const { importJWK } = await import('jose');
  let text = decryptOrNull(ctx.services.secretKey, stored.private_jwk);
  if (text === null) {
    // Its secret key was replaced. The public key stays published for a day, as after any rotation.
    stored = await ctx.transaction((tx) => makeKey(tx, { unlessThere: false }));
    text = decrypt(ctx.services.secretKey, stored.private_jwk);
  }
  const jwk = z.record(z.string(), z.unknown()).parse(JSON.parse(text));
  const key = await importJWK(jwk, SIGNING_ALGORITHM);
  if (key instanceof Uint8Array) throw new Error(`The signing key ${stored.kid} is not a key pair`);
  const fresh = { kid: stored.kid, key };
  opened.set(ctx.services, fresh);
  return fresh;
};

/** Returns the public keys that verify id tokens, newest first. */
export const publicKeys = async (ctx: Context): Promise<readonly PublicJwk[]> => {
  const read = () =>
    ctx.db.selectFrom('oauth_signing_keys').select(['kid', 'public_jwk']).orderBy('id', 'desc').execute();
  let rows = await read();
  if (rows.length === 0) {
    await ctx.transaction((tx) => makeKey(tx, { unlessThere: true }));
    rows = await read();
  }
  return rows.map(({ kid, public_jwk }) => ({
    ...publicJwk.parse(public_jwk),
    kid,
    use: 'sig',
    alg: SIGNING_ALGORITHM,
  }));
};

/**
 * Replaces the key that signs id tokens. The old public key stays published for a day, so that tokens it signed can be
 * verified. Returns the new key's id.
 *
 * @throws `unauthenticated`, `forbidden`
 */
export const rotateSigningKey = async (ctx: Context): Promise<string> => {
  requireAdministrator(ctx);
  const { kid } = await ctx.transaction((tx) => makeKey(tx, { unlessThere: false }));
  return kid;
};

/** Deletes keys that were replaced more than a day ago. The tokens they signed have expired. */
export const removeReplacedKeys = async ({ db }: Pick<Context, 'db'>): Promise<void> => {
  await sql`
    delete from oauth_signing_keys k
    where exists (select from oauth_signing_keys newer
      where newer.id > k.id and newer.created_at < now() - interval '1 day')`.execute(db);
};

/** Cache of this process's decrypted private key, because decryption takes longer than signing. */
const opened = new WeakMap<Services, SigningKey>();

interface StoredKey {
  readonly kid: string;
  readonly private_jwk: Buffer;
}

const newestKey = async ({ db }: Pick<Context, 'db'>): Promise<StoredKey | null> =>
  (await db
    .selectFrom('oauth_signing_keys')
    .select(['kid', 'private_jwk'])
    .orderBy('id', 'desc')
    .limit(1)
    .executeTakeFirst()) ?? null;

/** One process at a time creates a key. The others then find it. */
const makeKey = async (tx: Tx, { unlessThere }: { readonly unlessThere: boolean }): Promise<StoredKey> => {
  await sql`select pg_advisory_xact_lock(hashtextextended('oauth_signing_keys', 0))`.execute(tx.db);
  const there = unlessThere ? await newestKey(tx) : null;
  if (there) return there;
  const { calculateJwkThumbprint, exportJWK, generateKeyPair } = await import('jose');
  const pair = await generateKeyPair(SIGNING_ALGORITHM, { modulusLength: 2048, extractable: true });
  const shown = publicJwk.parse(await exportJWK(pair.publicKey));
  const stored = {
    kid: await calculateJwkThumbprint(shown),
    private_jwk: encrypt(tx.services.secretKey, JSON.stringify(await exportJWK(pair.privateKey))),
  };
  await tx.db
    .insertInto('oauth_signing_keys')
    .values({ ...stored, public_jwk: toJsonb(shown) })
    .execute();
  return stored;
};
