import { type Kysely, sql } from 'kysely';

/** The addresses that users sent requests from lately, for the setting `unique_ips_limit_enabled`. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    -- Unlogged, because it only matters for a while: after a crash the count starts again.
    create unlogged table user_addresses (
      user_id bigint not null references users (id) on delete cascade,
      -- A network: the address itself, or the /64 of an IPv6 address.
      address text not null,
      first_seen_at timestamptz not null default clock_timestamp(),
      last_seen_at timestamptz not null default clock_timestamp(),
      primary key (user_id, address)
    );
    create index user_addresses_last_seen on user_addresses (last_seen_at)`.execute(db);
};
