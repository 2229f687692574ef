import { createHash } from 'node:crypto';
import { sql } from 'kysely';
import { granted, MEMBER_ROLES } from '#domains/access/roles.ts';
import { avatarUrl, userWebUrl } from '#domains/users/model.ts';
import { getUser } from '#domains/users/queries.ts';
import type { Context } from '#platform/context.ts';
import { dateOf } from '#platform/time.ts';
import { SIGNING_ALGORITHM, signingKey } from './signing-keys.ts';

/** The contents of an id token. */
export interface IdTokenInput {
  readonly userId: number;
  readonly scopes: ReadonlySet<string>;
  /** The application's `client_id`. */
  readonly clientId: string;
  readonly accessToken: string;
  /** In seconds. */
  readonly expiresIn: number;
  readonly nonce: string | null;
  /** Unix time of the user's last authentication, if known. */
  readonly authTime: number | null;
}

/** Returns an id token (OpenID Connect Core §2), signed with the newest key. */
export const makeIdToken = async (ctx: Context, input: IdTokenInput): Promise<string> => {
  const { SignJWT } = await import('jose');
  const { kid, key } = await signingKey(ctx);
  const issuedAt = Math.floor(ctx.clock.now().getTime() / 1000);
  // Clients such as Auth.js read the user from the id token alone. The groups would make it large.
  const { groups: _, ...claims } = await claimsOf(ctx, input.userId, input.scopes);
  return new SignJWT({
    ...claims,
    azp: input.clientId,
    at_hash: halfHash(input.accessToken),
    ...(input.nonce === null ? {} : { nonce: input.nonce }),
    ...(input.authTime === null ? {} : { auth_time: input.authTime }),
  })
    .setProtectedHeader({ alg: SIGNING_ALGORITHM, kid, typ: 'JWT' })
    .setIssuer(ctx.services.urls.base)
    .setAudience(input.clientId)
    .setIssuedAt(issuedAt)
    .setExpirationTime(issuedAt + input.expiresIn)
    .sign(key);
};

/** Every claim that userinfo can return, for discovery. */
export const CLAIMS = [
  'sub',
  'name',
  'nickname',
  'preferred_username',
  'profile',
  'picture',
  'website',
  'zoneinfo',
  'updated_at',
  'groups',
  'email',
  'email_verified',
] as const;

export type Claims = Readonly<Partial<Record<(typeof CLAIMS)[number], unknown>> & { readonly sub: string }>;

/**
 * Returns the claims that the scopes allow (OpenID Connect Core §5.1, §5.4), and the full paths of the user's groups.
 */
export const claimsOf = async (ctx: Context, userId: number, scopes: ReadonlySet<string>): Promise<Claims> => {
  const user = await getUser(ctx, userId);
  const picture = avatarUrl(ctx, user);
  return {
    sub: String(user.id),
    ...(scopes.has('profile')
      ? {
          name: user.name,
          nickname: user.username,
          preferred_username: user.username,
          profile: userWebUrl(ctx, user),
          // Unknown claims are omitted, not null (§5.3.2).
          ...(picture === null ? {} : { picture }),
          ...(user.website_url ? { website: user.website_url } : {}),
          ...(user.timezone ? { zoneinfo: user.timezone } : {}),
          updated_at: Math.floor(dateOf(user.updated_at).getTime() / 1_000),
          groups: await groupPaths(ctx, userId),
        }
      : {}),
    ...(scopes.has('email') ? { email: user.email, email_verified: user.confirmed_at !== null } : {}),
  };
};

/** The left half of the SHA-256 digest, which is the hash of the signing algorithm (§3.1.3.6). */
const halfHash = (text: string): string =>
  createHash('sha256').update(text, 'ascii').digest().subarray(0, 16).toString('base64url');

/** Returns the groups that the user is a direct or inherited member of. */
const groupPaths = async ({ db }: Context, userId: number): Promise<string[]> => {
  const { rows } = await sql<{ full_path: string }>`
    select n.full_path from namespaces n
    where n.kind = 'group' and n.id in (${granted(MEMBER_ROLES, MEMBER_ROLES.place, { user: userId })})
    order by n.full_path`.execute(db);
  return rows.map((row) => row.full_path);
};
