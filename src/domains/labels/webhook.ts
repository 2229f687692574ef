import { z } from 'zod';
import { isoTime } from '#platform/time.ts';
import type { LabelRow } from './queries.ts';

/** The label object of webhook bodies (reference: webhooks §3). Events store it in this form. */
export const hookLabelSchema = z.object({
  id: z.number(),
  title: z.string(),
  color: z.string(),
  project_id: z.number().nullable(),
  created_at: z.string(),
  updated_at: z.string(),
  template: z.boolean(),
  description: z.string().nullable(),
  type: z.enum(['ProjectLabel', 'GroupLabel']),
  group_id: z.number().nullable(),
});
export type HookLabel = z.output<typeof hookLabelSchema>;

export const hookLabel = (label: LabelRow): HookLabel => ({
  id: label.id,
  title: label.title,
  color: label.color,
  project_id: label.project_id,
  created_at: isoTime(label.created_at),
  updated_at: isoTime(label.updated_at),
  template: label.template,
  description: label.description,
  type: label.project_id === null ? 'GroupLabel' : 'ProjectLabel',
  group_id: label.namespace_id,
});
