import type { RawBuilder } from 'kysely';
import type { ImportBatch } from '../importing/batch.ts';
import type { Json } from './columns.ts';

/** Lines of one relation file, and its rows here: declared once for both directions (reference: export-archive §3). */
export interface Relation {
  /** The file is `tree/project/<name>.ndjson`. */
  readonly name: string;
  readonly reading: RelationReading;
  /** Writes lines of a batch; what it cannot take of one it reports to the batch. Throwing means that all of them failed. */
  write(batch: ImportBatch, lines: readonly ImportLine[]): Promise<void>;
}

/** How export reads a relation: a page of parents by id, then each kind of children for the whole page at once. */
export interface RelationReading {
  count(projectId: number): RawBuilder<{ count: number }>;
  /** Rows `{ id, line }` after an id, where `line` is the JSON object of the parent alone. */
  page(projectId: number, afterId: number, limit: number): RawBuilder<{ id: number; line: string }>;
  readonly children: readonly ChildReading[];
}

export interface ChildReading {
  readonly key: string;
  /** Tells beforehand whether the project has any: most have none of most kinds. */
  readonly any: (projectId: number) => RawBuilder<{ any: boolean }>;
  /** Rows `{ parent_id, json }`, where `json` is what stands at the key. Parents without any are absent. */
  readonly of: (ids: readonly number[]) => RawBuilder<{ parent_id: number; json: string }>;
  /** What parents without any have: `[]`, or nothing at all. */
  readonly none: '[]' | null;
}

export interface ImportLine {
  /** From zero, as `failed_relations` counts. */
  readonly index: number;
  readonly value: Json;
}
