import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';

const alias = z.object({ id: z.number(), name: z.string(), project_id: z.number() });

/** Both are for administrators alone, as aliases are: neither stands below its project. */
export const aliasCreated = defineEvent('project_alias.created', alias);
export const aliasDeleted = defineEvent('project_alias.deleted', alias);
