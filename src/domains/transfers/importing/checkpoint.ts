import { sql } from 'kysely';
import { z } from 'zod';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { toJsonb } from '#platform/to-jsonb.ts';
import { importProgressed } from '../events.ts';
import type { ImportRow, RelationCounts } from '../model.ts';
import { Pace, percentageOf } from '../progress.ts';
import { updateStartedImport } from '../started.ts';
import { emitImport } from '../telling.ts';
import type { Unpacked } from './unpack.ts';

const stored = z.object({
  /** Lines of each relation that are done: the next one to read. */
  lines: z.record(z.string(), z.number()).default({}),
  /** Bytes of them. */
  bytes: z.record(z.string(), z.number()).default({}),
  repository: z.boolean().default(false),
});
type Stored = z.output<typeof stored>;

/**
 * How far the import is. What is written is written in one transaction with it, and only by the attempt that the row
 * counts: after a crash the next one goes on behind it, and one that only seemed dead can no longer write.
 */
export class Checkpoint {
  readonly #ctx: Context;
  readonly #row: ImportRow;
  readonly #project: ProjectRow;
  readonly #archive: Unpacked;
  readonly #pace = new Pace();
  #state: Stored;
  #bundleBytes = 0;

  constructor(ctx: Context, row: ImportRow, project: ProjectRow, archive: Unpacked) {
    this.#ctx = ctx;
    this.#row = row;
    this.#project = project;
    this.#archive = archive;
    this.#state = stored.safeParse(row.checkpoint).data ?? { lines: {}, bytes: {}, repository: false };
    if (this.#state.repository) this.#bundleBytes = archive.bundle?.size ?? 0;
  }

  get hasRepository(): boolean {
    return this.#state.repository;
  }

  doneLines(relation: string): number {
    return this.#state.lines[relation] ?? 0;
  }

  /** Writes, and with it that so many lines of the relation are done. */
  async lines(relation: string, done: number, bytes: number, write: (tx: Tx) => Promise<void>): Promise<void> {
    const { lines, bytes: known } = this.#state;
    await this.#save(
      {
        ...this.#state,
        lines: { ...lines, [relation]: done },
        bytes: { ...known, [relation]: (known[relation] ?? 0) + bytes },
      },
      write,
    );
  }

  async repository(write: (tx: Tx) => Promise<void>): Promise<void> {
    this.#bundleBytes = this.#archive.bundle?.size ?? 0;
    await this.#save({ ...this.#state, repository: true }, write);
  }

  /** Tells how much of the bundle has been read; nothing depends on it. */
  async bundle(bytes: number): Promise<void> {
    this.#bundleBytes = Math.max(bytes, this.#bundleBytes);
    if (this.#pace.isDue()) await this.#save(this.#state, async () => {});
  }

  /** Tells of the beginning: all counts, nothing done. */
  begin(): Promise<void> {
    return this.#save(this.#state, async () => {});
  }

  async #save(next: Stored, write: (tx: Tx) => Promise<void>): Promise<void> {
    const tells = this.#pace.isDue();
    const { total } = this.#amounts(next);
    const { bytes } = this.#amounts(next);
    await this.#ctx.transaction(async (tx) => {
      // First: it holds the row against a newer attempt until all is committed.
      const row = await updateStartedImport(tx, this.#row, {
        checkpoint: toJsonb(next),
        relations: toJsonb(this.#counts(next)),
        percentage: sql`greatest(percentage, ${percentageOf(bytes, total)}::float8)`,
        bytes: sql`greatest(bytes, ${bytes}::bigint)`,
        total_bytes: total,
      });
      await write(tx);
      if (tells) await emitImport(tx, this.#project, row, importProgressed);
    });
    if (tells) this.#pace.told();
    this.#state = next;
  }

  #counts({ lines }: Stored): RelationCounts {
    return Object.fromEntries(
      [...this.#archive.relations].map(([name, file]) => [name, { done: lines[name] ?? 0, total: file.lines }]),
    );
  }

  #amounts({ bytes }: Stored): { bytes: number; total: number } {
    const lines = Object.values(bytes).reduce((sum, each) => sum + each, 0);
    return { bytes: lines + this.#bundleBytes, total: this.#archive.bytes };
  }
}
