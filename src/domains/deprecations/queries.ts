import { sql } from 'kysely';
import { requireUser } from '#domains/users/policy.ts';
import type { Context } from '#platform/context.ts';
import { type List, listOf } from '#platform/db/list.ts';
import { flushUses } from './counting.ts';
import type { Kind } from './model.ts';

/** How often one credential used one deprecated name. */
export interface DeprecatedUse {
  readonly id: number;
  readonly name: string;
  readonly kind: Kind;
  readonly credential: string;
  readonly holder_id: number | null;
  /** The name of a personal access token, or of the application of an OAuth token. */
  readonly credential_name: string | null;
  readonly uses: number;
  readonly first_day: string;
  readonly last_used_at: string;
}

export interface UseFilter {
  readonly name?: string | undefined;
  /** The first day that counts, `YYYY-MM-DD`. */
  readonly since?: string | undefined;
  /** For administrators: only the use of their own credentials. */
  readonly mine?: boolean | undefined;
}

/**
 * Lists the use of deprecated names, most recent first: all of it for administrators, else that of the caller's own
 * credentials. Impersonation tokens belong to the administrator who created them. @throws `unauthenticated`
 */
export const listDeprecatedUses = async (
  ctx: Context,
  { name, since, mine = false }: UseFilter,
): Promise<List<DeprecatedUse>> => {
  const userId = requireUser(ctx);
  await flushUses(ctx.services);
  const sinceDay = since === undefined ? sql`true` : sql`d.day >= ${since}::date`;
  // The last day of each name and credential stands for all of its days.
  let query = ctx.db
    .selectFrom('deprecated_uses')
    .select([
      'deprecated_uses.id',
      'deprecated_uses.name',
      'deprecated_uses.credential',
      'deprecated_uses.holder_id',
      'deprecated_uses.last_used_at',
      sql<Kind>`deprecated_uses.kind`.as('kind'),
      CREDENTIAL_NAME.as('credential_name'),
      sql<number>`(select sum(d.uses)::bigint from deprecated_uses d where ${SAME} and ${sinceDay})`.as('uses'),
      sql<string>`(select min(d.day)::text from deprecated_uses d where ${SAME} and ${sinceDay})`.as('first_day'),
    ])
    .where(sql<boolean>`not exists (select 1 from deprecated_uses d where ${SAME} and d.day > deprecated_uses.day)`);
  if (!ctx.actor.isAdmin || mine) query = query.where('deprecated_uses.holder_id', '=', userId);
  if (name !== undefined) query = query.where('deprecated_uses.name', '=', name);
  if (since !== undefined) query = query.where(sql<boolean>`deprecated_uses.day >= ${since}::date`);
  return listOf(
    ctx.db,
    query,
    [
      { by: sql.ref('deprecated_uses.last_used_at'), of: (row) => row.last_used_at },
      { by: sql.ref('deprecated_uses.id'), of: (row) => row.id },
    ],
    'desc',
  );
};

const SAME = sql<boolean>`d.kind = deprecated_uses.kind and d.credential = deprecated_uses.credential
  and d.name = deprecated_uses.name`;

const CREDENTIAL_NAME = sql<string | null>`case deprecated_uses.kind
  when 'token' then (select t.name from personal_access_tokens t where t.id = deprecated_uses.credential::bigint)
  when 'oauth_token' then (
    select a.name from oauth_access_tokens o join oauth_applications a on a.id = o.application_id
    where o.family_id = deprecated_uses.credential::uuid limit 1) end`;
