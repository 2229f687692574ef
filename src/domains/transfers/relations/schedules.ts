import { MAX_INPUTS } from '#domains/schedules/model.ts';
import { isObject } from '#platform/values/json.ts';
import { author, type Column, flag, moment, object, textOr, time, title, typesOf } from './columns.ts';
import { readTable } from './reading.ts';
import type { Relation } from './relation.ts';

const columns: readonly Column[] = [
  textOr('description', '', { max: 1_024 }),
  title('ref', { max: 1_024 }),
  title('cron'),
  textOr('cron_timezone', 'UTC', { max: 255 }),
  time('next_run_at'),
  author('owner_id'),
  flag('active'),
  inputs(),
  moment('created_at'),
  moment('updated_at'),
];

/** The inputs for the CI file. Entries of another form are left out. */
function inputs(): Column {
  return {
    ...object('inputs', '[]'),
    read: (value) => {
      const found: { readonly name: string; readonly value: unknown }[] = [];
      for (const each of Array.isArray(value) ? value.slice(0, MAX_INPUTS) : []) {
        if (isObject(each) && typeof each.name === 'string' && each.name.length <= 255)
          found.push({ name: each.name, value: each.value ?? null });
      }
      return JSON.stringify(found);
    },
  };
}

export const pipelineSchedules: Relation = {
  name: 'pipeline_schedules',
  reading: readTable('pipeline_schedules', columns),
  async write(batch, lines) {
    // Schedules are inactive after an import, because an archive must not start pipelines.
    const rows = batch.read(lines, columns).map(({ row }) => ({
      ...row,
      project_id: batch.place.project_id,
      active: false,
      next_run_at: null,
    }));
    await batch.insert('pipeline_schedules', typesOf(columns, { project_id: 'bigint' }), rows);
  },
};
