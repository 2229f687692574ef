import type { Pool } from 'pg';
import { type Statement, statementName } from '../db/pool.ts';

/** Thrown in work for an assumed caller whose re-check failed. It never reaches the caller. */
class StaleCaller extends Error {}

/** A text of SQL that is sent often. */
interface Text {
  readonly text: string;
}

/** A condition that holds while nothing about a caller has changed, as SQL. */
export class CallerCondition {
  readonly #exists: (first: number) => string;
  readonly #alone: string;
  /** The guarded statements, by their own. */
  readonly #guarded = new WeakMap<Text, string>();

  /** `exists` writes the condition. Its parameters begin with `$first`. It must not refer to anything outside. */
  constructor(exists: (first: number) => string) {
    this.#exists = exists;
    this.#alone = `select 1 as one where ${exists(1)}`;
  }

  /** Returns a statement that has a row if the condition holds for the values. */
  alone(values: unknown[]): Statement {
    return { name: statementName(this.#alone), text: this.#alone, values };
  }

  /**
   * Returns the statement with the condition: it has its rows if the condition holds for the values, else none. Postgres
   * evaluates the condition once, and before anything else.
   */
  guard(statement: Text, parameters: readonly unknown[], values: readonly unknown[]): Statement {
    let text = this.#guarded.get(statement);
    if (text === undefined) {
      text = `select guarded.* from (${statement.text}) guarded where ${this.#exists(parameters.length + 1)}`;
      this.#guarded.set(statement, text);
    }
    return { name: statementName(text), text, values: [...parameters, ...values] };
  }
}

/**
 * Checks an assumed caller: the user whom an earlier request with the same credential identified. The database
 * re-checks it each time, within the first statement of the request, or at the end. Until then a request may read, but
 * must not respond or change anything.
 */
export class CallerCheck {
  readonly #condition: CallerCondition;
  readonly #values: unknown[];
  #isChecked = false;
  #holds: boolean | null = null;

  /** The assumption holds if the condition does for these values. */
  constructor(condition: CallerCondition, values: unknown[]) {
    this.#condition = condition;
    this.#values = values;
  }

  /**
   * Returns the rows of the statement. The first statement takes the check along. Throws if the check failed, to end the
   * work.
   */
  async query<Row extends object>(pool: Pool, statement: Text, parameters: unknown[]): Promise<Row[]> {
    if (this.#isChecked) {
      const { text } = statement;
      return (await pool.query<Row>({ name: statementName(text), text, values: parameters })).rows;
    }
    this.#isChecked = true;
    const { rows } = await pool.query<Row>(this.#condition.guard(statement, parameters, this.#values));
    // Without rows, either there is nothing, or the check failed. An answer of `holds` in the meantime may be older.
    this.#settle(rows.length > 0 || (await this.#isUnchanged(pool)));
    return rows;
  }

  /** Returns whether the assumption holds. Runs the check if no statement has run it yet. */
  async holds(pool: Pool): Promise<boolean> {
    if (this.#holds !== null) return this.#holds;
    this.#isChecked = true;
    const isUnchanged = await this.#isUnchanged(pool);
    this.#holds ??= isUnchanged;
    return this.#holds;
  }

  /** Like `holds`, but throws if the assumption does not hold. */
  async confirm(pool: Pool): Promise<void> {
    this.#settle(await this.holds(pool));
  }

  /**
   * Runs `work` for the assumed caller and then confirms the caller. Returns or throws the outcome of `work`, or returns
   * null if the assumption was wrong.
   */
  async during<T>(pool: Pool, work: () => Promise<T>): Promise<T | null> {
    try {
      const done = await work();
      return (await this.holds(pool)) ? done : null;
    } catch (error) {
      if (await this.holds(pool)) throw error;
      return null;
    }
  }

  async #isUnchanged(pool: Pool): Promise<boolean> {
    const { rows } = await pool.query(this.#condition.alone(this.#values));
    return rows.length > 0;
  }

  #settle(holds: boolean): void {
    this.#holds = holds && this.#holds !== false;
    if (!this.#holds) throw new StaleCaller();
  }
}
