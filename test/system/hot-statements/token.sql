select c.kind, c.id, c.scopes, c.revoked, c.expired, c.impersonation, c.holder_id, c.origin_id, c.rotated_family,
false as elevated, u.id as user_id, u.username, u.is_admin, u.is_auditor, u.external, u.state, u.user_type, u.accepted_terms, (c.last_used_at is null or c.last_used_at < now() - interval '1 minute'
or u.last_activity_on is distinct from current_date) as stale,
array[c.xmin::text, c.ctid::text, u.xmin::text, u.ctid::text] as version
from (
select t.xmin, t.ctid, 'token' as kind, t.id, t.user_id, t.scopes, t.revoked, not (t.expires_at is null or t.expires_at >= current_date) as expired,
t.impersonation, case when t.impersonation then coalesce(t.created_by_id, t.user_id) else t.user_id end as holder_id,
t.origin_id, case when t.rotated_at is not null then t.family_id end as rotated_family, t.last_used_at
from personal_access_tokens t where t.digest = $1
union all
select a.xmin, a.ctid, 'oauth_token', a.id, a.user_id, a.scopes, a.revoked_at is not null, coalesce(a.expires_at <= now(), false),
false, a.user_id, a.family_id, null, a.last_used_at
from oauth_access_tokens a where a.digest = $1
) c join users u on u.id = c.user_id;

-- Nested Loop
--   Append
--     Subquery Scan
--       Index Scan by personal_access_tokens_digest_key on personal_access_tokens
--     Subquery Scan
--       Index Scan by oauth_access_tokens_digest_key on oauth_access_tokens
--   Index Scan by users_pkey on users
