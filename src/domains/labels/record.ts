import { z } from 'zod';
import { descriptionHtml } from '#platform/description-html.ts';
import { textColor } from './colors.ts';
import type { LabelCounts, LabelRow } from './queries.ts';

/** A label inside another record (`with_labels_details`). */
export const labelDetailRecord = z
  .object({
    id: z.int(),
    name: z.string(),
    color: z.string(),
    text_color: z.string(),
    description: z.string().nullable(),
    description_html: z.string(),
    archived: z.boolean(),
  })
  .meta({ id: 'LabelDetail' });

export const labelRecord = z
  .object({
    ...labelDetailRecord.shape,
    open_issues_count: z.int().optional(),
    closed_issues_count: z.int().optional(),
    open_merge_requests_count: z.int().optional(),
    subscribed: z.boolean(),
    priority: z.int().nullable(),
    is_project_label: z.boolean(),
  })
  .meta({ id: 'Label' });

export const toLabelDetail = (label: LabelRow): z.output<typeof labelDetailRecord> => ({
  id: label.id,
  name: label.title,
  color: label.color,
  text_color: textColor(label.color),
  description: label.description,
  description_html: descriptionHtml(label.description),
  archived: label.archived,
});

/** Includes the counts if they are given. */
export const toLabel = (label: LabelRow, counts?: LabelCounts): z.output<typeof labelRecord> => ({
  ...toLabelDetail(label),
  ...(counts
    ? {
        open_issues_count: counts.open_issues_count,
        closed_issues_count: counts.closed_issues_count,
        open_merge_requests_count: counts.open_merge_requests_count,
      }
    : {}),
  // There are no notifications to subscribe to.
  subscribed: false,
  priority: label.priority,
  is_project_label: label.project_id !== null,
});
