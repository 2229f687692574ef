import { type Kysely, sql } from 'kysely';

/** Ref updates between git and the event log, and what counts pushes until the next clean-up of a repository. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    -- Written before refs move, settled with the events that tell of it: whatever dies in between leaves a row that
    -- says which refs to look at. While a row is open nobody else may move its refs, so each of them holds either
    -- its old or its new id.
    create table pushes (
      id bigint generated always as identity primary key,
      project_id bigint not null references projects (id) on delete cascade,
      user_id bigint references users (id) on delete set null,
      process_id uuid not null,
      chain_id text,
      -- [{ref, old_oid, new_oid}], null for "does not exist"
      commands jsonb not null,
      refs text[] not null,
      state text not null default 'receiving' check (state in ('receiving', 'recorded')),
      -- of a push settled by another process: the refs that had moved, should its own come back after all
      moved text[],
      created_at timestamptz not null default now()
    );
    create index pushes_open on pushes (project_id) where state = 'receiving';
    create index pushes_recorded on pushes (created_at) where state = 'recorded';

    create table repository_upkeep (
      project_id bigint primary key references projects (id) on delete cascade,
      pushes_since_gc integer not null default 0
    );
  `.execute(db);
};
