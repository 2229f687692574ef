import { z } from 'zod';
import { renderText, renderTexts } from '#domains/markdown/html.ts';
import type { Context } from '#platform/context.ts';
import { textColor } from './colors.ts';
import { labelProse } from './model.ts';
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

export type LabelDetail = z.output<typeof labelDetailRecord>;

/** Returns the records of labels by id. A label may be given more than once. */
export const toLabelDetails = async (ctx: Context, labels: Iterable<LabelRow>): Promise<Map<number, LabelDetail>> => {
  const distinct = new Map([...labels].map((label) => [label.id, label]));
  const html = await renderTexts(ctx, [...distinct.values()].map(labelProse));
  return new Map([...distinct.values()].map((label, index) => [label.id, detailOf(label, html[index] ?? '')]));
};

const detailOf = (label: LabelRow, description_html: string): LabelDetail => ({
  id: label.id,
  name: label.title,
  color: label.color,
  text_color: textColor(label.color),
  description: label.description,
  description_html,
  archived: label.archived,
});

interface LabelOptions {
  /** The ids of the labels that the caller has subscribed to. */
  readonly subscribed: ReadonlySet<number>;
  readonly counts?: ReadonlyMap<number, LabelCounts> | null | undefined;
}

/** Returns the records of a page of labels. Includes the counts if they are given. */
export const toLabels = async (
  ctx: Context,
  labels: readonly LabelRow[],
  options: LabelOptions,
): Promise<z.output<typeof labelRecord>[]> => {
  const html = await renderTexts(ctx, labels.map(labelProse));
  return labels.map((label, index) => labelWith(label, html[index] ?? '', options));
};

/** The same for one label. */
export const toLabel = async (ctx: Context, label: LabelRow, options: LabelOptions) =>
  labelWith(label, await renderText(ctx, labelProse(label)), options);

const labelWith = (
  label: LabelRow,
  html: string,
  { subscribed, counts }: LabelOptions,
): z.output<typeof labelRecord> => ({
  ...detailOf(label, html),
  ...countsOf(counts?.get(label.id)),
  subscribed: subscribed.has(label.id),
  priority: label.priority,
  is_project_label: label.project_id !== null,
});

const countsOf = (counts: LabelCounts | undefined) =>
  counts && {
    open_issues_count: counts.open_issues_count,
    closed_issues_count: counts.closed_issues_count,
    open_merge_requests_count: counts.open_merge_requests_count,
  };
