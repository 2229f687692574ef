import { MAX_DESCRIPTION, newTriggerToken } from '#domains/triggers/model.ts';
import { type Column, moment, textOr, typesOf } from './columns.ts';
import { byteaText } from './insert-rows.ts';
import { readTable } from './reading.ts';
import type { Relation } from './relation.ts';

const columns: readonly Column[] = [
  textOr('description', '', { max: MAX_DESCRIPTION }),
  moment('created_at'),
  moment('updated_at'),
];

const types = typesOf(columns, { project_id: 'bigint', owner_id: 'bigint', digest: 'bytea', sealed_token: 'bytea' });

/**
 * Triggers come without their tokens. An imported one gets a new token, and belongs to the importer:
 * its pipelines run with the rights of the owner.
 */
export const triggers: Relation = {
  name: 'triggers',
  reading: readTable('pipeline_triggers', columns),
  async write(batch, lines) {
    const rows = batch.read(lines, columns).map(({ row }) => {
      const { digest, sealed_token } = newTriggerToken(batch.place.secretKey);
      return {
        ...row,
        project_id: batch.place.project_id,
        owner_id: batch.people.importer.id,
        digest: byteaText(digest),
        sealed_token: byteaText(sealed_token),
      };
    });
    await batch.insert('pipeline_triggers', types, rows);
  },
};
