import { type RawBuilder, sql } from 'kysely';

// Each label and milestone is followed by its own index. `offset 0` keeps Postgres from reading all links or all merge
// requests instead, because it cannot know which label is rare.

/** Selects the ids of the merge requests with a label `l` that fits. */
export const withLabel = (fits: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`select held.merge_request_id as id from labels l cross join lateral (
      select k.merge_request_id from label_links k where k.label_id = l.id and k.merge_request_id is not null offset 0) held
    where ${fits}`;

/** Selects the ids of the merge requests with a milestone `m` that fits. */
export const withMilestone = (fits: RawBuilder<unknown>): RawBuilder<unknown> =>
  sql`select held.id from milestones m cross join lateral (
      select mr.id from merge_requests mr where mr.milestone_id = m.id offset 0) held
    where ${fits}`;
