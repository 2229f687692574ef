import { z } from 'zod';
import { labelsByIds } from '#domains/labels/queries.ts';
import { labelDetailRecord, toLabelDetails } from '#domains/labels/record.ts';
import { milestonesByIds } from '#domains/milestones/queries.ts';
import { milestoneRecord, toMilestone } from '#domains/milestones/record.ts';
import { userBasicRecord, userBasicsByIds } from '#domains/users/record.ts';
import type { Context } from '#platform/context.ts';
import { isoTime } from '#platform/time.ts';
import type { ResourceEventRow } from './history.ts';
import type { Reviewer } from './people.ts';

const user = userBasicRecord.nullable();

export const timeStatsRecord = z
  .object({
    time_estimate: z.int(),
    total_time_spent: z.int(),
    human_time_estimate: z.string().nullable(),
    human_total_time_spent: z.string().nullable(),
  })
  .meta({ id: 'TimeStats' });

export const reviewerRecord = z
  .object({ user: userBasicRecord, state: z.string(), created_at: z.string() })
  .meta({ id: 'MergeRequestReviewer' });

const event = {
  id: z.int(),
  user,
  created_at: z.string(),
  resource_type: z.enum(['Issue', 'MergeRequest']),
  resource_id: z.int(),
};
const action = z.string().nullable();

/** The records of the history, by kind. A label or milestone that was deleted takes its events with it. */
export const eventRecords = {
  state: z.object({ ...event, state: z.string() }).meta({ id: 'ResourceStateEvent' }),
  label: z.object({ ...event, label: labelDetailRecord.nullable(), action }).meta({ id: 'ResourceLabelEvent' }),
  milestone: z
    .object({ ...event, milestone: milestoneRecord.nullable(), action })
    .meta({ id: 'ResourceMilestoneEvent' }),
} as const;

/** Returns the parts that the records of all kinds have, in the order of the rows. */
const commonOf = async (ctx: Context, rows: readonly ResourceEventRow[]) => {
  const users = await userBasicsByIds(
    ctx,
    rows.map(({ user_id }) => user_id),
  );
  return rows.map((row) => {
    return {
      id: row.id,
      user: users.get(row.user_id) ?? null,
      created_at: isoTime(row.created_at),
      resource_type: row.issue_id === null ? ('MergeRequest' as const) : ('Issue' as const),
      resource_id: row.issue_id ?? row.merge_request_id ?? 0,
      row,
    };
  });
};

export const toStateEvents = async (ctx: Context, rows: readonly ResourceEventRow[]) =>
  (await commonOf(ctx, rows)).map(({ row, ...common }) => ({ ...common, state: row.state ?? '' }));

export const toLabelEvents = async (ctx: Context, rows: readonly ResourceEventRow[]) => {
  const labels = await labelsByIds(ctx, [...new Set(rows.flatMap(({ label_id }) => label_id ?? []))]);
  const details = await toLabelDetails(ctx, labels.values());
  return (await commonOf(ctx, rows)).map(({ row, ...common }) => ({
    ...common,
    label: details.get(row.label_id ?? 0) ?? null,
    action: row.action,
  }));
};

export const toMilestoneEvents = async (ctx: Context, rows: readonly ResourceEventRow[]) => {
  const milestones = await milestonesByIds(ctx, [...new Set(rows.flatMap(({ milestone_id }) => milestone_id ?? []))]);
  return (await commonOf(ctx, rows)).map(({ row, ...common }) => {
    const milestone = milestones.get(row.milestone_id ?? 0);
    return { ...common, milestone: milestone ? toMilestone(ctx, milestone) : null, action: row.action };
  });
};

/** Leaves out users whose account has been deleted. */
export const toReviewers = async (
  ctx: Context,
  reviewers: readonly Reviewer[],
): Promise<z.output<typeof reviewerRecord>[]> => {
  const users = await userBasicsByIds(
    ctx,
    reviewers.map(({ user_id }) => user_id),
  );
  return reviewers.flatMap(({ user_id, state, created_at }) => {
    const user = users.get(user_id);
    return user ? [{ user, state, created_at: isoTime(created_at) }] : [];
  });
};
