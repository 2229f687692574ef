import type { Tx } from '#platform/context.ts';
import type { ImportLine, Relation } from '../relations/relation.ts';
import { type Failure, ITEM } from './batch.ts';

/** Lists and objects that only repeat or describe what the rest of the archive holds. */
const REPEATED = new Set(['events', 'attachment', 'author', 'user', 'work_item_type', 'work_item_description']);

/** The limit of keys that are reported by name for each relation. An archive can have millions. */
const MAX_KEYS = 50;

const CLASS = 'RelationUnknown';

/** The lists and objects in the lines of a relation that this hub does not know. Each key is reported once. */
export class UnknownKeys {
  readonly #projectId: number;
  readonly #relation: string;
  readonly #known: ReadonlySet<string>;
  /** The messages that are saved. Null before the first unknown key. */
  #reported: Set<string> | null = null;

  constructor(projectId: number, { name, reading, alsoReads = [] }: Relation) {
    this.#projectId = projectId;
    this.#relation = name;
    this.#known = new Set([...reading.keys, ...alsoReads]);
  }

  /**
   * Returns a failure for each key that is not reported yet, with the first line that has it. Above the limit one more
   * failure stands for all further keys.
   */
  async find(tx: Tx, lines: readonly ImportLine[]): Promise<readonly Failure[]> {
    const found = new Map<string, Failure>();
    for (const { index, value } of lines) {
      for (const key in value) {
        if (this.#known.has(key) || REPEATED.has(key) || isEmpty(value[key])) continue;
        this.#reported ??= await this.#read(tx);
        const count = this.#reported.size + found.size;
        if (count > MAX_KEYS) return [...found.values()];
        const message = this.#message(key);
        if (this.#reported.has(message) || found.has(message)) continue;
        const exception_message = count < MAX_KEYS ? message : this.#furtherKeys();
        found.set(exception_message, { exception_class: CLASS, exception_message, source: ITEM, line_number: index });
      }
    }
    return [...found.values()];
  }

  /** Remembers failures of `find`, whose transaction has been committed. */
  saved(failures: readonly Failure[]): void {
    for (const { exception_message } of failures) this.#reported?.add(exception_message);
  }

  /** Reads what earlier attempts have reported. */
  async #read({ db }: Tx): Promise<Set<string>> {
    const rows = await db
      .selectFrom('import_failures')
      .select('exception_message')
      .where('project_id', '=', this.#projectId)
      .where('relation_name', '=', this.#relation)
      .where('exception_class', '=', CLASS)
      .limit(MAX_KEYS + 1)
      .execute();
    return new Set(rows.map(({ exception_message }) => exception_message));
  }

  #message(key: string): string {
    return `This hub does not know ${key.slice(0, 100).toWellFormed()} of ${this.#relation}: they were left out`;
  }

  #furtherKeys(): string {
    return `This hub does not know more keys of ${this.#relation} than the ${MAX_KEYS} reported: they were left out`;
  }
}

/** Single values are attributes, which differ between versions of the archive. */
const isEmpty = (value: unknown): boolean =>
  typeof value !== 'object' || value === null || Object.keys(value).length === 0;
