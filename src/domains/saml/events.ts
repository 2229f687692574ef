import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';

const link = z.object({
  id: z.number(),
  group: z.object({ id: z.number(), full_path: z.string() }),
  name: z.string(),
  access_level: z.number(),
  member_role_id: z.number().nullable(),
});

/** Sent to the Owners of the group. */
export const samlGroupLinkCreated = defineEvent('saml_group_link.created', link);
export const samlGroupLinkDeleted = defineEvent('saml_group_link.deleted', link);
