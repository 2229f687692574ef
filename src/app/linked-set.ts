/** The place of an item in a `LinkedSet`. */
export interface Place<T> {
  readonly item: T;
  isTaken: boolean;
  before: Place<T> | null;
  after: Place<T> | null;
}

/**
 * A set of objects that come and go with each request. A `Map` or `Set` builds a new table after some insertions and
 * deletions, and each old table refers to its entries and to the next one. Once V8 takes one of them for long-lived, it
 * takes all later entries for reachable until it collects the whole heap. Deleted places refer to nothing.
 */
export class LinkedSet<T> {
  #first: Place<T> | null = null;

  /** Adds an item, and returns what `delete` needs. */
  add(item: T): Place<T> {
    const place: Place<T> = { item, isTaken: true, before: null, after: this.#first };
    if (this.#first) this.#first.before = place;
    this.#first = place;
    return place;
  }

  /** Deletes an item. Repeating it changes nothing. */
  delete(place: Place<T>): void {
    if (!place.isTaken) return;
    const { before, after } = place;
    if (before) before.after = after;
    else this.#first = after;
    if (after) after.before = before;
    place.isTaken = false;
    place.before = null;
    place.after = null;
  }

  /** Iterates over the places. The current one may be deleted meanwhile. */
  *[Symbol.iterator](): Generator<Place<T>> {
    for (let place = this.#first; place; ) {
      const { after } = place;
      yield place;
      place = after;
    }
  }
}
