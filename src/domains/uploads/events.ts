import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';

/** Never includes the URL. */
const upload = z.object({
  id: z.number(),
  filename: z.string(),
  size: z.number(),
  project_id: z.number().nullable(),
  group_id: z.number().nullable(),
});

export const uploadCreated = defineEvent('upload.created', upload);
export const uploadDeleted = defineEvent('upload.deleted', upload);
