import type { Pool } from 'pg';
import { runPrepared, type Statement } from './db/prepared.ts';

/** Raised in work that was begun for a caller who is not, or no longer, who he was taken for. It never reaches him. */
class NotAsPresumed extends Error {}

/**
 * That the caller is who an earlier request with the same credential found him to be. Whether it still holds the database
 * says each time, but together with the first statement that is run for him, or else at the end: until then a request may
 * read, and nothing may be answered or changed.
 */
export class Presumption {
  readonly #check: Statement;
  #isTaken = false;
  #holds: boolean | null = null;

  /** `check` gives a row where it holds. */
  constructor(check: Statement) {
    this.#check = check;
  }

  /** The check, for the statement that is run first; null for those after it. */
  take(): Statement | null {
    if (this.#isTaken) return null;
    this.#isTaken = true;
    return this.#check;
  }

  /** What came of the check. Throws where it failed, to end the work. */
  settle(holds: boolean): void {
    this.#holds = holds && this.#holds !== false;
    if (!this.#holds) throw new NotAsPresumed();
  }

  /** Whether it holds; asks where no statement has said so. */
  async holds(pool: Pool): Promise<boolean> {
    if (this.#holds !== null) return this.#holds;
    this.#isTaken = true;
    const [found = []] = await runPrepared(pool, [this.#check]);
    this.#holds ??= found.length > 0;
    return this.#holds;
  }

  /** As `holds`; throws where it does not. */
  async confirm(pool: Pool): Promise<void> {
    this.settle(await this.holds(pool));
  }
}
