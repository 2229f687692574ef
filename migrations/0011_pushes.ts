import { type Kysely, sql } from 'kysely';

/** Ref updates between git and the event log, and the number of pushes since the last gc of a repository. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    -- Written before refs move, and settled together with their events. If a process dies in between, the row says
    -- which refs to check. While a row is open, no other push may move its refs, so each of them has either its old or
    -- its new id.
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
      -- for a push settled by another process: the refs that had moved, in case the original process returns
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
