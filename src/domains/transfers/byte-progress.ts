import type { UpdateObject } from 'kysely';
import type { ProjectRow } from '#domains/projects/queries.ts';
import type { Context } from '#platform/context.ts';
import type { DB } from '#platform/db/tables.ts';
import { emitImport } from './emit-progress.ts';
import { importProgressed } from './events.ts';
import type { ImportRow } from './model.ts';
import { Pace } from './progress.ts';
import { updateStartedImport } from './update-import.ts';

/** Records the received bytes of an import that comes over the network, and emits progress events at a limited rate. */
export class ByteProgress {
  readonly #ctx: Context;
  readonly #row: ImportRow;
  readonly #project: ProjectRow;
  readonly #changes: (bytes: number) => UpdateObject<DB, 'project_imports'>;
  readonly #pace = new Pace();
  #writing: Promise<void> = Promise.resolve();

  constructor(
    ctx: Context,
    row: ImportRow,
    project: ProjectRow,
    changes: (bytes: number) => UpdateObject<DB, 'project_imports'>,
  ) {
    this.#ctx = ctx;
    this.#row = row;
    this.#project = project;
    this.#changes = changes;
  }

  /** Reports how many bytes have been received so far. If the progress cannot be written, `settled` throws the error. */
  report(bytes: number): void {
    if (!this.#pace.isDue()) return;
    this.#pace.emitted();
    this.#writing = this.#writing.then(() => this.#write(bytes));
    this.#writing.catch(() => undefined);
  }

  /** Resolves when the progress has been written. @throws Superseded */
  settled(): Promise<void> {
    return this.#writing;
  }

  #write(bytes: number): Promise<void> {
    return this.#ctx.transaction(async (tx) => {
      const row = await updateStartedImport(tx, this.#row, this.#changes(bytes));
      await emitImport(tx, this.#project, row, importProgressed);
    });
  }
}
