import type { Pool } from 'pg';
import { queryTogether, type Statement } from './db/pool.ts';

/** Raised in work that was begun for a caller who is not, or no longer, who he was taken for. It never reaches him. */
class StaleCaller extends Error {}

/**
 * That the caller is who an earlier request with the same credential found him to be. Whether it still holds the database
 * says each time, but together with the first statement that is run for him, or else at the end: until then a request may
 * read, and nothing may be answered or changed.
 */
export class CallerCheck {
  readonly #check: Statement;
  #isChecked = false;
  #holds: boolean | null = null;

  /** `check` gives a row where it holds. */
  constructor(check: Statement) {
    this.#check = check;
  }

  /** The rows of the statement, the first one run together with the check. Throws where that failed, to end the work. */
  async query<Row extends object>(pool: Pool, statement: Statement): Promise<Row[]> {
    if (this.#isChecked) return (await pool.query<Row>(statement)).rows;
    this.#isChecked = true;
    const [found, rows] = await queryTogether<object, Row>(pool, this.#check, statement);
    this.#settle(found.length > 0);
    return rows;
  }

  /** Whether it holds; asks where no statement has said so. */
  async holds(pool: Pool): Promise<boolean> {
    if (this.#holds !== null) return this.#holds;
    this.#isChecked = true;
    const { rows } = await pool.query(this.#check);
    this.#holds ??= rows.length > 0;
    return this.#holds;
  }

  /** As `holds`; throws where it does not. */
  async confirm(pool: Pool): Promise<void> {
    this.#settle(await this.holds(pool));
  }

  #settle(holds: boolean): void {
    this.#holds = holds && this.#holds !== false;
    if (!this.#holds) throw new StaleCaller();
  }
}
