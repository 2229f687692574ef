import { sql } from 'kysely';
import { z } from 'zod';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context, Tx } from '#platform/context.ts';
import { toJsonb } from '#platform/values/to-jsonb.ts';
import { emitImport } from '../emit-progress.ts';
import { importProgressed } from '../events.ts';
import type { ImportRow, RelationCounts } from '../model.ts';
import { DOWNLOAD_SHARE, Pace, percentageOf } from '../progress.ts';
import { NUMBERED_RELATIONS } from '../relations/numbered.ts';
import { lockStartedImport, updateStartedImport } from '../update-import.ts';
import { addStats, type ImportStats, importStats, NO_STATS } from './stats.ts';
import type { Unpacked } from './unpack.ts';

const stored = z.object({
  /** By relation: the number of finished lines, which is the index of the next one. */
  lines: z.record(z.string(), z.number()).default({}),
  /** By relation: the bytes of the finished lines. */
  bytes: z.record(z.string(), z.number()).default({}),
  repository: z.boolean().default(false),
  stats: importStats.default(NO_STATS),
  /** By relation: the highest number of the archive. Absent until the archive is read. */
  numbers: z.partialRecord(z.enum(NUMBERED_RELATIONS), z.number()).optional(),
});
type Stored = z.output<typeof stored>;

/** Returns the highest numbers of the archive of an import, by relation. Null if it has not been read. */
export const numbersOf = ({ checkpoint }: Pick<ImportRow, 'checkpoint'>): Stored['numbers'] | null =>
  stored.safeParse(checkpoint).data?.numbers ?? null;

/** Returns whether lines were imported by a version of the hub that stored no numbers. */
export const lacksNumbers = ({ checkpoint }: Pick<ImportRow, 'checkpoint'>): boolean => {
  const { lines = {}, numbers } = stored.safeParse(checkpoint).data ?? {};
  return numbers === undefined && Object.values(lines).some((done) => done > 0);
};

/** Returns whether the repository of the archive is in its place. */
export const hasRepository = ({ checkpoint }: Pick<ImportRow, 'checkpoint'>): boolean =>
  stored.safeParse(checkpoint).data?.repository ?? false;

/**
 * The progress of an import. Data is written in the same transaction as its checkpoint, and only by the attempt
 * recorded in the row. After a crash the next attempt continues from there, and an attempt that only seemed dead cannot
 * write any more.
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
    const known = stored.safeParse(row.checkpoint).data ?? { lines: {}, bytes: {}, repository: false, stats: NO_STATS };
    const numbers = Object.fromEntries(
      NUMBERED_RELATIONS.map((name) => [name, archive.relations.get(name)?.highestIid ?? 0]),
    );
    this.#state = { ...known, numbers };
    if (this.#state.repository) this.#bundleBytes = archive.bundle?.size ?? 0;
  }

  get hasRepository(): boolean {
    return this.#state.repository;
  }

  doneLines(relation: string): number {
    return this.#state.lines[relation] ?? 0;
  }

  /** Runs `write` and records in the same transaction that `done` lines of the relation are finished. */
  async lines(relation: string, done: number, bytes: number, write: (tx: Tx) => Promise<ImportStats>): Promise<void> {
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
    await this.#save({ ...this.#state, repository: true }, async (tx) => {
      await write(tx);
      return NO_STATS;
    });
  }

  /** Reports how much of the bundle has been read. For progress only. */
  async bundle(bytes: number): Promise<void> {
    this.#bundleBytes = Math.max(bytes, this.#bundleBytes);
    if (this.#pace.isDue()) await this.#save(this.#state, async () => NO_STATS);
  }

  /** Reports the start, with all totals. */
  begin(): Promise<void> {
    return this.#save(this.#state, async () => NO_STATS);
  }

  async #save(position: Stored, write: (tx: Tx) => Promise<ImportStats>): Promise<void> {
    const isDue = this.#pace.isDue();
    const { bytes, total } = this.#amounts(position);
    const next = await this.#ctx.transaction(async (tx) => {
      // Locks the row against a newer attempt until the commit.
      await lockStartedImport(tx, this.#row);
      const saved = { ...position, stats: addStats(position.stats, await write(tx)) };
      const row = await updateStartedImport(tx, this.#row, {
        checkpoint: toJsonb(saved),
        stats: toJsonb(saved.stats),
        relations: toJsonb(this.#counts(saved)),
        percentage: sql`greatest(percentage, ${this.#percentage(bytes, total)}::float8)`,
        bytes: sql`greatest(bytes, ${bytes}::bigint)`,
        total_bytes: total,
      });
      if (isDue) await emitImport(tx, this.#project, row, importProgressed);
      return saved;
    });
    if (isDue) this.#pace.emitted();
    this.#state = next;
  }

  /** A download before the import counts for a share of it. */
  #percentage(bytes: number, total: number): number {
    const done = percentageOf(bytes, total);
    return this.#row.download_size === null ? done : DOWNLOAD_SHARE + (done * (100 - DOWNLOAD_SHARE)) / 100;
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
