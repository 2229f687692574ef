/** Runs at most a number of tasks at the same time. The others wait in their order. */
export class Slots {
  #free: number;
  readonly #waiting: (() => void)[] = [];

  constructor(number: number) {
    this.#free = number;
  }

  async run<T>(task: () => Promise<T>): Promise<T> {
    if (this.#free > 0) this.#free--;
    else await new Promise<void>((resolve) => this.#waiting.push(resolve));
    try {
      return await task();
    } finally {
      // The slot passes to the next waiting task, or becomes free.
      const next = this.#waiting.shift();
      if (next) next();
      else this.#free++;
    }
  }
}

/** Slots that many owners share. None takes more than its part, so that the tasks of one do not hold up all others. */
export class SharedSlots<Owner> {
  readonly #all: Slots;
  readonly #each: number;
  readonly #owners = new Map<Owner, { readonly slots: Slots; tasks: number }>();

  constructor({ all, each }: { readonly all: number; readonly each: number }) {
    this.#all = new Slots(all);
    this.#each = each;
  }

  async run<T>(owner: Owner, task: () => Promise<T>): Promise<T> {
    const own = this.#owners.get(owner) ?? { slots: new Slots(this.#each), tasks: 0 };
    this.#owners.set(owner, own);
    own.tasks++;
    try {
      return await own.slots.run(() => this.#all.run(task));
    } finally {
      own.tasks--;
      if (own.tasks === 0) this.#owners.delete(owner);
    }
  }
}
