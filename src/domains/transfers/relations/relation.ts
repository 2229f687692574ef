import type { RawBuilder } from 'kysely';
import type { ImportBatch } from '../importing/batch.ts';
import type { Json } from './columns.ts';

/** A relation file of the archive, declared once for export and import (reference: export-archive §3). */
export interface Relation {
  /** The file is `tree/project/<name>.ndjson`. */
  readonly name: string;
  /** Left out of exports that others than administrators request. */
  readonly forAdministrators?: true;
  readonly reading: RelationReading;
  /** Keys with lists or objects that import reads, besides those that export writes. */
  readonly alsoReads?: readonly string[];
  /**
   * Does what must not hold the locks of a transaction, before `write`: the batch has none yet, and its failures are
   * dropped, because `write` reports them. Repeating it changes nothing.
   */
  prepare?(batch: ImportBatch, lines: readonly ImportLine[]): Promise<void>;
  /** Writes the lines and reports unusable items to the batch. If it throws, all lines have failed. */
  write(batch: ImportBatch, lines: readonly ImportLine[]): Promise<void>;
}

/** The rights of the user who requested an export. */
export interface ExportReader {
  /** Whether they requested it as an administrator. */
  readonly isAdministrator: boolean;
  /** The groups above the project whose members they may take along. */
  readonly groupIds: readonly number[];
}

/** How export reads a relation: the ids of all parents, then pages of parents with each kind of children. */
export interface RelationReading {
  count(projectId: number, reader: ExportReader): RawBuilder<{ count: number }>;
  /** The ids of the parents, in the order of the lines. */
  ids(projectId: number, reader: ExportReader): RawBuilder<{ id: number }>;
  /** Rows `{ id, line }` in the order of the ids. `line` is the JSON object of the parent without children. */
  page(ids: readonly number[]): RawBuilder<{ id: number; line: string }>;
  readonly children: readonly ChildReading[];
  /** The keys of a line, with those of the children. */
  readonly keys: readonly string[];
}

export interface ChildReading {
  readonly key: string;
  /** Returns whether the project has any. Most projects have none of most kinds. */
  readonly any: (projectId: number) => RawBuilder<{ any: boolean }>;
  /** Rows `{ parent_id, json }`, where `json` is the value at the key. Parents without children are absent. */
  readonly of: (ids: readonly number[]) => RawBuilder<{ parent_id: number; json: string }>;
  /** The value for parents without children: `[]`, or no key at all. */
  readonly none: '[]' | null;
}

export interface ImportLine {
  /** Counts from zero, as in `failed_relations`. */
  readonly index: number;
  readonly value: Json;
}
