with found as materialized (select namespaces.id, "namespaces"."xmin" as row_xmin, "namespaces"."ctid" as row_ctid, namespaces.name, namespaces.path from namespaces where namespaces.id in (
select a.namespace_id from namespace_access a where a.user_id = $1 and a.access_level >= $2::int and a.expires_at > current_date) and namespaces.kind = 'group')
select namespaces.id, namespaces.row_xmin, namespaces.row_ctid, coalesce((select max(a.access_level) from namespace_access a where a.user_id = $3 and a.namespace_id = "namespaces"."id" and a.access_level >= 10 and a.expires_at > current_date), 0) as access_level, (select count(*) from found) as total from found namespaces where true order by "namespaces"."name" asc, namespaces.id asc limit 21;

-- Limit
--   CTE found: Nested Loop
--     Aggregate
--       Index Only Scan by namespace_access_pkey on namespace_access
--     Index Scan by namespaces_pkey on namespaces
--   InitPlan 3: Aggregate
--     CTE Scan
--   Result
--     Sort
--       CTE Scan
--     SubPlan 2: Aggregate
--       Index Only Scan by namespace_access_namespace on namespace_access
