import { sql } from 'kysely';
import type { Database } from '#platform/db/pool.ts';
import { isObject } from '#platform/values/json.ts';
import { type Column, type Json, objectsIn, Refused, type Row, readRow } from '../relations/columns.ts';
import { insertRows, takeIds } from '../relations/insert-rows.ts';
import type { ImportLine } from '../relations/relation.ts';
import type { ForkHeads } from './fork-heads.ts';
import type { ImportPeople } from './people.ts';
import { StatCounter } from './stats.ts';

export interface ImportPlace {
  readonly project_id: number;
  /** Encrypts new secrets. */
  readonly secretKey: Buffer;
  readonly creator_id: number | null;
  /** 0 is unlimited. */
  readonly maxSnippetBytes: number;
  /** The groups that contain the project. It may use their labels and milestones. */
  readonly namespace_ids: readonly number[];
  readonly forkHeads: ForkHeads;
}

export interface Failure {
  readonly exception_class: string;
  readonly exception_message: string;
  readonly source: string;
  readonly line_number: number;
}

/** The `source` values of `failed_relations` (reference: export-archive §7). */
export const ITEM = 'process_relation_item!';
export const CHILD = 'RelationTreeRestorer#save_relation_object';

/** Lines that are written in one transaction. A retry uses a new batch. */
export class ImportBatch {
  readonly db: Database;
  readonly place: ImportPlace;
  readonly people: ImportPeople;
  readonly failures: Failure[] = [];
  readonly counter = new StatCounter();
  #skipped = 0;

  constructor(db: Database, place: ImportPlace, people: ImportPeople) {
    this.db = db;
    this.place = place;
    this.people = people;
  }

  insert(
    table: string,
    types: Readonly<Record<string, string>>,
    rows: readonly Row[],
    options?: { readonly unlessThere?: boolean },
  ): Promise<void> {
    return insertRows(this.db, table, types, rows, options);
  }

  takeIds(table: string, count: number): Promise<number[]> {
    return takeIds(this.db, table, count);
  }

  /** How many lines are left out although they can be read. */
  get skipped(): number {
    return this.#skipped;
  }

  /** Leaves out lines that can be read, so that they do not count as imported. */
  skip(count = 1): void {
    this.#skipped += count;
  }

  /** Records the failure of an item, which is then left out. @throws errors other than `Refused` */
  fail(line: ImportLine, error: unknown, source: string = ITEM): void {
    if (!(error instanceof Refused)) throw error;
    this.failures.push({
      exception_class: error.name,
      exception_message: error.message.slice(0, 1_000),
      source,
      line_number: line.index,
    });
  }

  /** Reads each line by the declared columns. Lines that cannot be read are recorded as failures. */
  read(lines: readonly ImportLine[], columns: readonly Column[]): { readonly line: ImportLine; readonly row: Row }[] {
    const found: { line: ImportLine; row: Row }[] = [];
    for (const line of lines) {
      try {
        found.push({ line, row: readRow(columns, line.value, this.people) });
      } catch (error) {
        this.fail(line, error);
      }
    }
    return found;
  }

  /** Calls `read` for each object of the list below `key`. An item that cannot be read is left out; the others stay. */
  children(line: ImportLine, parent: Json, key: string, read: (child: Json) => void): void {
    for (const child of objectsIn(parent, key)) {
      try {
        if (!isObject(child)) throw new Refused('is not an object');
        read(child);
      } catch (error) {
        this.fail(line, error instanceof Refused ? new Refused(`${key}: ${error.message}`) : error, CHILD);
      }
    }
  }

  async query<R>(query: { execute(db: Database): Promise<{ readonly rows: R[] }> }): Promise<R[]> {
    return (await query.execute(this.db)).rows;
  }

  /** Drops lines whose number is taken, in the project or by an earlier line, and records them as failures. */
  async withoutTaken(
    table: string,
    read: readonly { readonly line: ImportLine; readonly row: Row }[],
  ): Promise<{ readonly line: ImportLine; readonly row: Row }[]> {
    const iids = read.map(({ row }) => row.iid);
    const rows = await this.query(sql<{ iid: number }>`
      select iid from ${sql.table(table)} where project_id = ${this.place.project_id} and iid = any (${iids}::int[])`);
    const taken = new Set<unknown>(rows.map((row) => row.iid));
    return read.filter(({ line, row }) => {
      if (taken.has(row.iid)) {
        this.fail(line, new Refused(`iid ${String(row.iid)} has already been taken`));
        return false;
      }
      taken.add(row.iid);
      return true;
    });
  }
}
