import type { Selectable } from 'kysely';
import type { RelationImports } from '#platform/db/tables.ts';
import { NUMBERED_RELATIONS, type NumberedRelation } from '../relations/numbered.ts';

export type RelationImportRow = Selectable<RelationImports>;

/** The relations that can be imported by themselves (specification 1 §2.3). */
export const IMPORTABLE_RELATIONS = NUMBERED_RELATIONS;
export type ImportableRelation = NumberedRelation;

export const RELATION_IMPORT_STATUSES = ['created', 'started', 'finished', 'failed'] as const;
export const RUNNING_RELATION_IMPORT = ['created', 'started'] as const;
