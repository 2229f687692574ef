import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';

const alias = z.object({ id: z.number(), name: z.string(), project_id: z.number() });

/** Both events are for administrators only, like aliases. They have no project scope. */
export const aliasCreated = defineEvent('project_alias.created', alias);
export const aliasDeleted = defineEvent('project_alias.deleted', alias);
