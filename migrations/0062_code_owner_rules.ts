import { type Kysely, sql } from 'kysely';

/** The code owners of the files that a merge request changes, derived from `CODEOWNERS` of its target branch. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create table code_owner_rules (
      -- distinct from the ids of other rules: clients get all of them in one list
      id bigint primary key default nextval(pg_get_serial_sequence('approval_rules', 'id')),
      merge_request_id bigint not null references merge_requests (id) on delete cascade,
      position integer not null,
      section text not null,
      pattern text not null,
      owners text[] not null,
      approvals_required smallint not null,
      optional boolean not null,
      unique (merge_request_id, position)
    );

    -- What the rules were derived from, so that they are derived again only if that changes.
    create table code_owner_sources (
      merge_request_id bigint primary key references merge_requests (id) on delete cascade,
      source text not null
    );
  `.execute(db);
};
