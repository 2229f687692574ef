import { type Kysely, sql } from 'kysely';

/**
 * Deliveries, their payloads and their attempts live in partitions of the day on which the delivery was created, and go
 * together when the partitions are dropped. What is still to be sent is a narrow row of `webhook_queue`, so that
 * claiming and finishing a delivery touch few and small indexes (decision 57).
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create schema webhooks_before;
    alter table webhook_payloads set schema webhooks_before;
    alter table webhook_deliveries set schema webhooks_before;
    alter table webhook_attempts set schema webhooks_before;

    -- The content of one event, shared by its deliveries to all hooks. Created in the same moment as they are.
    create table webhook_payloads (
      id bigserial not null,
      event_id bigint,
      kind text not null,
      trigger text not null,
      chain_id text not null,
      -- null if it could not be built
      body text,
      -- decides who may read the content (domains/events/visibility.ts); null: only administrators
      moment jsonb,
      -- the hooks that the event has fired, to end loops
      webhook_ids bigint[] not null default '{}',
      created_at timestamptz not null default now(),
      primary key (id, created_at)
    ) partition by range (created_at);
    create index webhook_payloads_chain on webhook_payloads (chain_id);

    -- The rows have no foreign keys, because a check per row costs more than the job that deletes what is left of
    -- deleted hooks.
    create table webhook_deliveries (
      -- the Idempotency-Key and webhook-id of every attempt
      id uuid not null default gen_random_uuid(),
      webhook_id bigint not null,
      payload_id bigint not null,
      -- open: see webhook_queue; dropped: never sent (last_error has the reason). In no index, so that finishing a
      -- delivery changes no index.
      state text not null default 'open' check (state in ('open', 'delivered', 'expired', 'canceled', 'dropped')),
      attempts integer not null default 0,
      last_response_status integer,
      last_error text,
      -- also that of the payload
      created_at timestamptz not null default now(),
      finished_at timestamptz,
      primary key (id, created_at)
    ) partition by range (created_at);
    create index webhook_deliveries_list on webhook_deliveries (webhook_id, created_at, id);

    -- The deliveries that are not finished.
    create table webhook_queue (
      delivery_id uuid primary key,
      webhook_id bigint not null,
      payload_id bigint not null,
      -- that of the delivery
      created_at timestamptz not null,
      -- held: the hook is disabled
      state text not null default 'waiting' check (state in ('waiting', 'sending', 'held')),
      -- the sending process; cleared when that process dies
      claimed_by uuid,
      attempts integer not null default 0,
      next_attempt_at timestamptz not null default now(),
      -- The start of the three days of retries. A replay resets it.
      retries_from timestamptz not null default now()
    ) with (fillfactor = 80, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_scale_factor = 0.05,
      autovacuum_analyze_scale_factor = 0.05);
    create index webhook_queue_due on webhook_queue (webhook_id, next_attempt_at) where state = 'waiting';
    create index webhook_queue_held on webhook_queue (webhook_id, created_at) where state = 'held';
    create index webhook_queue_claimed on webhook_queue (claimed_by) where state = 'sending';

    create table webhook_attempts (
      id bigserial not null,
      delivery_id uuid not null,
      delivery_created_at timestamptz not null,
      payload_id bigint not null,
      webhook_id bigint not null,
      attempt integer not null,
      trigger text not null,
      -- secrets are masked in the following columns
      request_url text not null,
      request_headers json not null,
      -- set only if a template produced a body that differs from the payload
      request_body text,
      response_status integer,
      response_headers json not null default '{}',
      response_body text,
      duration_ms integer not null,
      error text,
      created_at timestamptz not null default now(),
      primary key (id, delivery_created_at)
    ) partition by range (delivery_created_at);
    create index webhook_attempts_list on webhook_attempts (webhook_id, id);
    create index webhook_attempts_delivery on webhook_attempts (delivery_id, attempt);
    create index webhook_attempts_failed on webhook_attempts (webhook_id, id) where error is not null;
  `.execute(db);

  await sql`
    select make_time_partition(name::regclass, 'day', day, options)
    from (
      select distinct date_trunc('day', created_at, 'UTC') as day from webhooks_before.webhook_payloads
      union select date_trunc('day', now(), 'UTC') + n * interval '1 day' from generate_series(0, 1) n
    ) days, (values
      ('webhook_payloads', 'toast_tuple_target = 8160'), ('webhook_deliveries', 'fillfactor = 70'),
      ('webhook_attempts', null)) tables (name, options)
  `.execute(db);

  await sql`
    insert into webhook_payloads (id, event_id, kind, trigger, chain_id, body, moment, webhook_ids, created_at)
    select id, event_id, kind, trigger, chain_id, body, moment,
      case when created_at > now() - interval '1 hour' then coalesce((
        select array_agg(d.webhook_id) from webhooks_before.webhook_deliveries d
        where d.payload_id = p.id and d.state <> 'dropped'), '{}') else '{}' end,
      created_at
    from webhooks_before.webhook_payloads p;

    insert into webhook_deliveries
      (id, webhook_id, payload_id, state, attempts, last_response_status, last_error, created_at, finished_at)
    select d.id, d.webhook_id, d.payload_id, case when d.state in ('waiting', 'sending', 'held') then 'open' else d.state end,
      d.attempts, d.last_response_status, d.last_error, p.created_at, d.finished_at
    from webhooks_before.webhook_deliveries d join webhooks_before.webhook_payloads p on p.id = d.payload_id;

    insert into webhook_queue
      (delivery_id, webhook_id, payload_id, created_at, state, attempts, next_attempt_at, retries_from)
    select d.id, d.webhook_id, d.payload_id, p.created_at, case d.state when 'held' then 'held' else 'waiting' end,
      d.attempts, d.next_attempt_at, d.retries_from
    from webhooks_before.webhook_deliveries d join webhooks_before.webhook_payloads p on p.id = d.payload_id
    where d.state in ('waiting', 'sending', 'held');

    insert into webhook_attempts (id, delivery_id, delivery_created_at, payload_id, webhook_id, attempt, trigger,
      request_url, request_headers, request_body, response_status, response_headers, response_body, duration_ms, error,
      created_at)
    select a.id, a.delivery_id, p.created_at, p.id, a.webhook_id, a.attempt, a.trigger, a.request_url, a.request_headers,
      a.request_body, a.response_status, a.response_headers, a.response_body, a.duration_ms, a.error, a.created_at
    from webhooks_before.webhook_attempts a
    join webhooks_before.webhook_deliveries d on d.id = a.delivery_id
    join webhooks_before.webhook_payloads p on p.id = d.payload_id;

    select setval('webhook_payloads_id_seq', greatest((select max(id) from webhook_payloads), 0) + 1, false),
      setval('webhook_attempts_id_seq', greatest((select max(id) from webhook_attempts), 0) + 1, false);

    drop schema webhooks_before cascade;
  `.execute(db);
};
