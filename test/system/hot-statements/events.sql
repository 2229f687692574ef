select events.id, events.position, events.kind, events.actor_id, events.subject_type, events.subject_id, events.project_id, events.namespace_ids, events.visibility_level, events.min_access_level, events.user_ids, events.chain_id, events.created_at, events.payload from events where position > $1 and position <= $2
order by position limit 200;

-- Limit
--   Sort
--     Append
--       Index Scan by events_0_position_idx on events_0
--       Seq Scan on events_pending
