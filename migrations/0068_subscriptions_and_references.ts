import { type Kysely, sql } from 'kysely';

/**
 * Who subscribed to an issue, a merge request or a label, or unsubscribed from it. Since when someone is a reviewer. And
 * which issues and merge requests mention which.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create table subscriptions (
      user_id bigint not null references users (id) on delete cascade,
      issue_id bigint references issues (id) on delete cascade,
      merge_request_id bigint references merge_requests (id) on delete cascade,
      label_id bigint references labels (id) on delete cascade,
      subscribed boolean not null,
      check (num_nonnulls(issue_id, merge_request_id, label_id) = 1)
    )`.execute(db);
  await sql`create unique index subscriptions_issue on subscriptions (issue_id, user_id)`.execute(db);
  await sql`create unique index subscriptions_merge_request on subscriptions (merge_request_id, user_id)`.execute(db);
  await sql`create unique index subscriptions_label on subscriptions (label_id, user_id)`.execute(db);
  await sql`create index subscriptions_user on subscriptions (user_id)`.execute(db);
  await sql`alter table merge_request_reviewers add column created_at timestamptz not null default now()`.execute(db);
  await sql`
    update merge_request_reviewers r set created_at = m.created_at
    from merge_requests m where m.id = r.merge_request_id`.execute(db);
  await sql`
    create table cross_references (
      from_issue_id bigint references issues (id) on delete cascade,
      from_merge_request_id bigint references merge_requests (id) on delete cascade,
      to_issue_id bigint references issues (id) on delete cascade,
      to_merge_request_id bigint references merge_requests (id) on delete cascade,
      closes boolean not null,
      check (num_nonnulls(from_issue_id, from_merge_request_id) = 1),
      check (num_nonnulls(to_issue_id, to_merge_request_id) = 1),
      unique nulls not distinct (from_merge_request_id, from_issue_id, to_issue_id, to_merge_request_id)
    )`.execute(db);
  await sql`create index cross_references_to_issue on cross_references (to_issue_id)`.execute(db);
  await sql`create index cross_references_from_issue on cross_references (from_issue_id)
    where from_issue_id is not null`.execute(db);
  await sql`create index cross_references_to_merge_request on cross_references (to_merge_request_id)
    where to_merge_request_id is not null`.execute(db);
};
