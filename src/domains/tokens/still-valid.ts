import { getSettings } from '#domains/settings/queries.ts';
import { enforcedTerms } from '#domains/users/terms.ts';
import type { Actor, Services } from '#platform/context.ts';
import { isUnexpired } from './model.ts';

/**
 * Returns the indexes of the actors who could still authenticate as before: their token or session is neither revoked
 * nor expired, their token has kept its scopes, their account is open, their user has accepted the terms if that is
 * enforced, and their flags for administrators, auditors and external users are unchanged. Runs one statement for all
 * actors.
 */
export const stillValid = async (services: Services, actors: readonly Actor[]): Promise<ReadonlySet<number>> => {
  const valid = new Set<number>();
  const groups = new Map<string, { readonly actor: Actor; readonly indexes: number[] }>();
  for (const [index, actor] of actors.entries()) {
    if (actor.userId === null) {
      valid.add(index);
      continue;
    }
    const key = `${actor.userId}:${actor.credential?.kind}:${actor.credential?.id}:${actor.isAdmin}:${actor.isExternal}:${actor.isAuditor ?? false}:${scopesOf(actor)}`;
    const group = groups.get(key);
    if (group) group.indexes.push(index);
    else groups.set(key, { actor, indexes: [index] });
  }
  if (groups.size === 0) return valid;
  const asked = [...groups.values()];
  const {
    impersonation_enabled: impersonation,
    disable_personal_access_tokens: disabled,
    admin_mode: adminMode,
  } = await getSettings({ services });
  const { rows } = await services.pool.query<{ n: number }>(STILL_VALID, [
    asked.map(({ actor }) => actor.userId),
    asked.map(({ actor }) => actor.credential?.kind ?? null),
    asked.map(({ actor }) => actor.credential?.id ?? null),
    asked.map(({ actor }) => actor.isAdmin),
    asked.map(({ actor }) => actor.isExternal),
    impersonation,
    disabled,
    await enforcedTerms(services),
    adminMode,
    asked.map(({ actor }) => actor.isAuditor ?? false),
    asked.map(({ actor }) => scopesOf(actor)),
  ]);
  for (const { n } of rows) for (const index of asked[n - 1]?.indexes ?? []) valid.add(index);
  return valid;
};

/** Only tokens of OAuth applications can lose scopes. */
const scopesOf = ({ credential, scopes }: Actor): string =>
  credential?.kind === 'oauth_token' && scopes ? [...scopes].join(' ') : '';

/** As `actorOfAccount` decides it, for the credential of `w`. */
const IN_ADMIN_MODE = `(not $9::boolean or coalesce(s.admin_until > now(), false)
      or coalesce('admin_mode' = any(coalesce(t.scopes, a.scopes)), false))`;

// An administrator's token may act for another user (sudo).
const STILL_VALID = `
  select w.n from unnest($1::bigint[], $2::text[], $3::bigint[], $4::boolean[], $5::boolean[], $10::boolean[],
    $11::text[]) with ordinality as w (user_id, kind, credential_id, admin, external, auditor, scopes, n)
  join users u on u.id = w.user_id
  left join personal_access_tokens t on w.kind = 'token' and t.id = w.credential_id
    and not t.revoked and ${isUnexpired('t')} and ($6 or not t.impersonation)
  left join oauth_access_tokens a on w.kind = 'oauth_token' and a.id = w.credential_id
    and a.revoked_at is null and (a.expires_at is null or a.expires_at > now())
    and a.scopes @> string_to_array(w.scopes, ' ')
  left join sessions s on w.kind = 'session' and s.id = w.credential_id and s.expires_at > now()
  left join jobs j on w.kind = 'job_token' and j.id = w.credential_id and j.token_digest is not null
    and j.status in ('running', 'canceling')
  left join users o on o.id = coalesce(t.user_id, a.user_id, s.user_id, j.user_id)
  where u.state = 'active'
    and ((u.is_admin and ${IN_ADMIN_MODE}) = w.admin and u.is_auditor = w.auditor or w.kind = 'job_token')
    and u.external = w.external
    and (w.kind is null or (o.state = 'active' and (o.id = u.id or o.is_admin and ${IN_ADMIN_MODE})
      and (not $7 or t.impersonation is not false or o.is_admin)
      and ($8::text is null or o.accepted_terms = $8 or o.is_admin or o.user_type <> 'human'
        or w.kind = 'job_token' or t.impersonation is true)))`;
