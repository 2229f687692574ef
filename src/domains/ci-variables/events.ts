import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';

// All are only for those who administer the variables, and none carries a value.

const variable = z.object({
  id: z.number(),
  key: z.string(),
  environment_scope: z.string(),
  namespace_id: z.number().nullable(),
  project_id: z.number().nullable(),
});

export const ciVariableCreated = defineEvent('ci_variable.created', variable);
export const ciVariableUpdated = defineEvent(
  'ci_variable.updated',
  variable.extend({ changed: z.array(z.string()).describe('The names of the changed attributes.') }),
);
export const ciVariableDeleted = defineEvent('ci_variable.deleted', variable);
