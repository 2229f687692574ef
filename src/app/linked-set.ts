/** An item in a `LinkedSet`. */
export interface Entry<T> {
  readonly item: T;
  isTaken: boolean;
  before: Entry<T> | null;
  after: Entry<T> | null;
}

/**
 * A set of objects that come and go with each request. A `Map` or `Set` builds a new table after some insertions and
 * deletions, and each old table refers to its entries and to the next one. Once V8 takes one of them for long-lived, it
 * takes all later entries for reachable until it collects the whole heap. Deleted entries refer to nothing.
 */
export class LinkedSet<T> {
  #first: Entry<T> | null = null;

  /** Adds an item, and returns what `delete` needs. */
  add(item: T): Entry<T> {
    const entry: Entry<T> = { item, isTaken: true, before: null, after: this.#first };
    if (this.#first) this.#first.before = entry;
    this.#first = entry;
    return entry;
  }

  /** Deletes an item. Repeating it changes nothing. */
  delete(entry: Entry<T>): void {
    if (!entry.isTaken) return;
    const { before, after } = entry;
    if (before) before.after = after;
    else this.#first = after;
    if (after) after.before = before;
    entry.isTaken = false;
    entry.before = null;
    entry.after = null;
  }

  /** Iterates over the entries. The current one may be deleted meanwhile. */
  *[Symbol.iterator](): Generator<Entry<T>> {
    for (let entry = this.#first; entry; ) {
      const { after } = entry;
      yield entry;
      entry = after;
    }
  }
}
