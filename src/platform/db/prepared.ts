import type pg from 'pg';
import { typeParsers } from './pool.ts';

/** A statement that is prepared by name; without one it is planned each time. */
export interface Statement {
  readonly name: string | undefined;
  readonly text: string;
  readonly values: readonly unknown[];
}

/** What a connection has told of the columns of a statement that is prepared there. */
interface Columns {
  readonly names: readonly string[];
  readonly parsers: readonly ((value: string) => unknown)[];
  /** A row with all columns null, in their order: V8 copies its shape. */
  readonly empty: Readonly<Record<string, null>>;
}

const known = new WeakMap<pg.PoolClient, Map<string, Columns>>();

/**
 * Runs the statements in their order on one connection, each with a snapshot of its own, and gives the rows of each. Where
 * all of them were run before they go in one packet, which costs about as much as one of them, and the columns are not
 * described again. When one fails, nothing is told of the others.
 */
export const runPrepared = async <Row extends object>(
  pool: pg.Pool,
  statements: readonly Statement[],
): Promise<Row[][]> => {
  const client = await pool.connect();
  try {
    const columns = columnsOf(client);
    const bound = boundOf<Row>(columns, statements);
    const results = bound ? await client.query(bound).results : await runApart<Row>(client, columns, statements);
    client.release();
    return results;
  } catch (error) {
    client.release(error instanceof Error ? error : true);
    throw error;
  }
};

const columnsOf = (client: pg.PoolClient): Map<string, Columns> => {
  const columns = known.get(client) ?? new Map<string, Columns>();
  known.set(client, columns);
  return columns;
};

/** As pg does it, which prepares what is not yet. */
const runApart = async <Row extends object>(
  client: pg.PoolClient,
  columns: Map<string, Columns>,
  statements: readonly Statement[],
): Promise<Row[][]> => {
  const results: Row[][] = [];
  for (const { name, text, values } of statements) {
    const { rows, fields } = await client.query<Row>({ text, values: [...values], ...(name && { name }) });
    results.push(rows);
    if (name === undefined || columns.has(name)) continue;
    columns.set(name, {
      names: fields.map((field) => field.name),
      parsers: fields.map(({ dataTypeID }) => typeParsers.getTypeParser(dataTypeID, 'text')),
      empty: Object.fromEntries(fields.map((field) => [field.name, null] as const)),
    });
  }
  return results;
};

type Value = string | Buffer | null;

/** Null where a statement is not prepared on the connection, or has a value that pg has to put into words. */
const boundOf = <Row extends object>(
  columns: ReadonlyMap<string, Columns>,
  statements: readonly Statement[],
): Bound<Row> | null => {
  const parts: Part[] = [];
  for (const { name, text, values } of statements) {
    const described = name === undefined ? undefined : columns.get(name);
    if (name === undefined || !described) return null;
    const worded: Value[] = [];
    for (const value of values) {
      const word = wordOf(value);
      if (word === undefined) return null;
      worded.push(word);
    }
    parts.push({ name, text, values: worded, columns: described });
  }
  return new Bound<Row>(parts);
};

const wordOf = (value: unknown): Value | undefined => {
  if (value === null || value === undefined) return null;
  if (typeof value === 'string' || Buffer.isBuffer(value)) return value;
  if (typeof value === 'number' || typeof value === 'boolean') return String(value);
  return Array.isArray(value) && value.every((each) => typeof each === 'number') ? `{${value.join()}}` : undefined;
};

interface Part {
  readonly name: string;
  readonly text: string;
  readonly values: Value[];
  readonly columns: Columns;
}

/** Prepared statements with their values, as pg's client takes what is no query of its own. */
class Bound<Row extends object> implements pg.Submittable {
  readonly results: Promise<Row[][]>;
  readonly #parts: readonly Part[];
  readonly #rows: Row[][];
  readonly #resolve: (rows: Row[][]) => void;
  readonly #reject: (error: unknown) => void;
  /** The statement whose answer is being read. */
  #at = 0;

  constructor(parts: readonly Part[]) {
    const { promise, resolve, reject } = Promise.withResolvers<Row[][]>();
    this.results = promise;
    this.#resolve = resolve;
    this.#reject = reject;
    this.#parts = parts;
    this.#rows = parts.map(() => []);
  }

  /** For whoever watches what is run. */
  get text(): string {
    return this.#parts.map(({ text }) => text).join(';');
  }

  submit(connection: pg.Connection): void {
    connection.stream.cork();
    for (const { name, values } of this.#parts) {
      connection.bind({ statement: name, values }, true);
      connection.execute(null, true);
    }
    connection.sync();
    connection.stream.uncork();
  }

  handleDataRow({ fields }: { readonly fields: readonly (string | null)[] }): void {
    const columns = this.#parts[this.#at]?.columns;
    if (columns) this.#rows[this.#at]?.push(rowOf<Row>(columns, fields));
  }

  handleCommandComplete(): void {
    this.#at++;
  }

  handleReadyForQuery(): void {
    this.#resolve(this.#rows);
  }

  handleError(error: unknown): void {
    this.#reject(error);
  }
}

const rowOf = <Row extends object>({ names, parsers, empty }: Columns, fields: readonly (string | null)[]): Row => {
  const row: Record<string, unknown> = { ...empty };
  for (let i = 0; i < names.length; i++) {
    const name = names[i];
    const parse = parsers[i];
    const field = fields[i];
    if (name !== undefined && parse && field !== null && field !== undefined) row[name] = parse(field);
  }
  // What the statement selects its author says, as he does to pg.
  return row as Row;
};
