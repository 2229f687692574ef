import { MAX_LENGTH } from '#domains/custom-attributes/model.ts';
import { type Column, Refused, title, typesOf } from './columns.ts';
import { readTable } from './reading.ts';
import type { Relation } from './relation.ts';

const columns: readonly Column[] = [title('key', { max: MAX_LENGTH }), title('value', { max: MAX_LENGTH })];

/** Only administrators see and set custom attributes. */
export const customAttributes: Relation = {
  name: 'custom_attributes',
  forAdministrators: true,
  reading: readTable('custom_attributes', columns),
  async write(batch, lines) {
    if (!batch.people.considersMembers) {
      for (const line of lines) batch.fail(line, new Refused('Only administrators import custom attributes'));
      return;
    }
    const rows = batch.read(lines, columns).map(({ row }) => ({ ...row, project_id: batch.place.project_id }));
    await batch.insert('custom_attributes', typesOf(columns, { project_id: 'bigint' }), rows, { unlessThere: true });
  },
};
