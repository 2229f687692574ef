import { z } from 'zod';
import type { Context } from '#platform/context.ts';
import { type CiVariableRow, shownValue } from './model.ts';

const shared = {
  variable_type: z.string(),
  key: z.string(),
  value: z.string().nullable().describe('Null if the variable is hidden, or was encrypted with a lost key.'),
  protected: z.boolean(),
  masked: z.boolean(),
  raw: z.boolean(),
  description: z.string().nullable(),
};

/** A variable of a project or group. */
export const variableRecord = z
  .object({ ...shared, hidden: z.boolean(), environment_scope: z.string() })
  .meta({ id: 'CiVariable' });

export const instanceVariableRecord = z.object(shared).meta({ id: 'InstanceCiVariable' });

export const toInstanceVariable = (ctx: Context, row: CiVariableRow): z.output<typeof instanceVariableRecord> => ({
  variable_type: row.variable_type,
  key: row.key,
  value: shownValue(ctx, row),
  protected: row.protected,
  masked: row.masked,
  raw: row.raw,
  description: row.description,
});

export const toVariable = (ctx: Context, row: CiVariableRow): z.output<typeof variableRecord> => ({
  ...toInstanceVariable(ctx, row),
  hidden: row.hidden,
  environment_scope: row.environment_scope,
});
