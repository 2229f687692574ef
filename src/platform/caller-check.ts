import type { Pool } from 'pg';
import { queryTogether, type Statement } from './db/pool.ts';

/** Thrown in work for an assumed caller whose re-check failed. It never reaches the caller. */
class StaleCaller extends Error {}

/**
 * Checks an assumed caller: the user whom an earlier request with the same credential identified. The database
 * re-checks it each time, together with the first statement of the request, or at the end. Until then a request may
 * read, but must not respond or change anything.
 */
export class CallerCheck {
  readonly #check: Statement;
  #isChecked = false;
  #holds: boolean | null = null;

  /** `check` must return a row if the assumption holds. */
  constructor(check: Statement) {
    this.#check = check;
  }

  /**
   * Returns the rows of the statement. The first statement runs together with the check. Throws if the check failed, to
   * end the work.
   */
  async query<Row extends object>(pool: Pool, statement: Statement): Promise<Row[]> {
    if (this.#isChecked) return (await pool.query<Row>(statement)).rows;
    this.#isChecked = true;
    const [found, rows] = await queryTogether<object, Row>(pool, this.#check, statement);
    this.#settle(found.length > 0);
    return rows;
  }

  /** Returns whether the assumption holds. Runs the check if no statement has run it yet. */
  async holds(pool: Pool): Promise<boolean> {
    if (this.#holds !== null) return this.#holds;
    this.#isChecked = true;
    const { rows } = await pool.query(this.#check);
    this.#holds ??= rows.length > 0;
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

  #settle(holds: boolean): void {
    this.#holds = holds && this.#holds !== false;
    if (!this.#holds) throw new StaleCaller();
  }
}
