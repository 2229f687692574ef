import { z } from 'zod';

/** An alias (specification 1 §2.5). */
export const aliasRecord = z
  .object({ id: z.int(), project_id: z.int(), name: z.string() })
  .meta({ id: 'ProjectAlias' });
