import { sql } from 'kysely';
import { recountOpenIssues } from '#domains/issues/commands.ts';
import { raiseIid } from '#domains/projects/insert.ts';
import { can } from '#domains/projects/policy.ts';
import { findProject, type ProjectRow } from '#domains/projects/queries.ts';
import { branchRef } from '#domains/repositories/model.ts';
import { mayPushTo } from '#domains/repositories/policy.ts';
import { readProtections } from '#domains/repositories/protections.ts';
import { moveRefs } from '#domains/repositories/pushes.ts';
import { getSettings } from '#domains/settings/queries.ts';
import type { Actor, Context, Tx } from '#platform/context.ts';
import { forbidden } from '#platform/errors.ts';
import { removeFiles } from '#platform/files/remove-files.ts';
import type { JobRun } from '#platform/jobs.ts';
import { relationImportFinished, relationImportProgressed } from '../events.ts';
import type { CreateBranch } from '../importing/fork-heads.ts';
import { importerOf } from '../importing/importer.ts';
import { countUp } from '../importing/numbering.ts';
import { ImportPeople } from '../importing/people.ts';
import { placeOf } from '../importing/place.ts';
import { reasonOf } from '../importing/reason.ts';
import { importRelation, type LineProgress, readPeople } from '../importing/relations.ts';
import { unpack } from '../importing/unpack.ts';
import { Superseded, TransferError } from '../model.ts';
import { Pace } from '../progress.ts';
import { RELATIONS } from '../relations/all.ts';
import { usableIid } from '../relations/columns.ts';
import { NUMBERED } from '../relations/numbered.ts';
import type { ImportLine } from '../relations/relation.ts';
import { whileCurrent } from '../while-current.ts';
import {
  IMPORTABLE_RELATIONS,
  type ImportableRelation,
  type RelationImportRow,
  RUNNING_RELATION_IMPORT,
} from './model.ts';
import { emitRelationImport, failRelationImport, updateStartedRelationImport } from './store.ts';

/** Runs a relation import, or continues one whose worker died. Only the attempt recorded in the row can write. */
export const runRelationImport = async (ctx: Context, id: number, run: JobRun): Promise<void> => {
  const row = await claim(ctx, id);
  const project = row && (await findProject(ctx, { id: row.project_id }));
  if (!row || !project) return;
  try {
    await whileCurrent(ctx, 'relation_imports', row, (current) => carryOut(current, row, project));
  } catch (error) {
    if (error instanceof Superseded) {
      ctx.log.warn({ relation_import_id: id }, 'another attempt took over the relation import');
      return;
    }
    if (ctx.signal.aborted) throw error;
    const reason = reasonOf(error);
    if (reason === null && !run.lastAttempt) throw error;
    if (reason === null) ctx.log.error({ err: error, relation_import_id: id }, 'a relation import failed');
    await failRelationImport(ctx, id, reason ?? 'The import could not be completed.', {
      attempt: row.attempt,
      // Another attempt would end the same way if the archive is at fault.
      keepsArchive: reason === null,
    });
  }
};

const claim = async (ctx: Context, id: number): Promise<RelationImportRow | null> =>
  (await ctx.db
    .updateTable('relation_imports')
    .set({
      status: 'started',
      attempt: sql`attempt + 1`,
      started_at: sql`coalesce(started_at, now())`,
      updated_at: sql`now()`,
    })
    .where('id', '=', id)
    .where('status', 'in', RUNNING_RELATION_IMPORT)
    .returningAll()
    .executeTakeFirst()) ?? null;

const carryOut = async (ctx: Context, row: RelationImportRow, project: ProjectRow): Promise<void> => {
  const importer = await importerOf(ctx, row);
  const target = await findProject({ ...ctx, actor: importer }, { id: project.id });
  if (!target || !can({ actor: importer }, target, 'import_relation'))
    throw new TransferError('The user who started the import may no longer import into the project.');
  const name = IMPORTABLE_RELATIONS.find((each) => each === row.relation);
  const relation = RELATIONS.find((each) => each.name === name);
  if (!name || !relation || row.storage_key === null) throw new Error(`cannot import the relation ${row.relation}`);
  const wanted = new Set([row.relation, 'project_members']);
  const archive = await unpack(ctx, [row.storage_key], await getSettings(ctx), wanted, { bundle: false });
  try {
    const { isAdmin, userId: id } = importer;
    const file = archive.relations.get(row.relation);
    const progress = new Progress(ctx, row, name, file?.lines ?? 0);
    if (file) {
      await ctx.transaction(async (tx) => {
        await updateStartedRelationImport(tx, row, { total_lines: file.lines });
        // Items that are created from now on get higher numbers, so they do not take those of the archive.
        await raiseIid(tx, project.id, NUMBERED[name].counter, file.highestIid);
      });
      const place = await placeOf(ctx, project, pushWithin(ctx, importer, target));
      const people = new ImportPeople(
        { id, name: importer.name },
        isAdmin,
        isAdmin ? await readPeople(ctx, archive) : new Map(),
      );
      await importRelation(ctx, relation, file, place, people, progress, (tx, lines) => progress.unknown(tx, lines));
    }
    await ctx.transaction(async (tx) => {
      const done = await updateStartedRelationImport(tx, row, {
        status: 'finished',
        storage_key: null,
        done_lines: file?.lines ?? 0,
        total_lines: file?.lines ?? 0,
        finished_at: sql`now()`,
      });
      await countUp(tx, project.id, name);
      await recountOpenIssues(tx, project.id);
      if (row.storage_key !== null) tx.enqueue(removeFiles, { disk_paths: [], storage_keys: [row.storage_key] });
      await emitRelationImport(tx, done, relationImportFinished);
    });
  } finally {
    await archive.close();
  }
};

/**
 * Creates branches with the events of a push, because others work in the project, and past no protection. The hub does
 * it, not the importer: a push of theirs would start a pipeline for each merge request.
 */
const pushWithin =
  (hub: Context, actor: Actor, project: ProjectRow): CreateBranch =>
  async (name, newOid) => {
    const protections = await readProtections({ ...hub, actor }, project.id);
    if (!mayPushTo({ actor }, project, { protections, only: null }, name)) throw forbidden();
    await moveRefs(hub, project, [{ ref: branchRef(name), oldOid: null, newOid }]);
  };

/** Stores how many lines are finished, in the transaction that writes them. */
class Progress implements LineProgress {
  readonly #ctx: Context;
  readonly #row: RelationImportRow;
  readonly #relation: ImportableRelation;
  readonly #total: number;
  readonly #pace = new Pace();
  #done: number;
  #skipped = 0;

  constructor(ctx: Context, row: RelationImportRow, relation: ImportableRelation, total: number) {
    this.#ctx = ctx;
    this.#row = row;
    this.#relation = relation;
    this.#total = total;
    this.#done = row.done_lines;
  }

  doneLines(): number {
    return this.#done;
  }

  async lines(_relation: string, done: number, _bytes: number, write: (tx: Tx) => Promise<unknown>): Promise<void> {
    const isDue = this.#pace.isDue();
    await this.#ctx.transaction(async (tx) => {
      // This update comes first, because it locks the row against a newer attempt until the commit.
      await updateStartedRelationImport(tx, this.#row, { done_lines: done, total_lines: this.#total });
      this.#skipped = 0;
      await write(tx);
      const row = await updateStartedRelationImport(tx, this.#row, {
        skipped_lines: sql`skipped_lines + ${this.#skipped}::int`,
      });
      if (isDue) await emitRelationImport(tx, row, relationImportProgressed);
    });
    if (isDue) this.#pace.emitted();
    this.#done = done;
  }

  /** Returns the lines whose item the project does not have yet (reference: export-archive §7). */
  async unknown(tx: Tx, lines: readonly ImportLine[]): Promise<readonly ImportLine[]> {
    const iids = lines.flatMap(({ value }) => usableIid(value.iid) ?? []);
    const { rows } = await sql<{ iid: number }>`
      select iid from ${sql.table(NUMBERED[this.#relation].table)}
      where project_id = ${this.#row.project_id} and iid = any (${iids}::int[])`.execute(tx.db);
    const taken = new Set(rows.map(({ iid }) => iid));
    const fresh = lines.filter(({ value }) => !taken.has(usableIid(value.iid) ?? 0));
    this.#skipped = lines.length - fresh.length;
    return this.#relation === 'ci_pipelines' ? this.#unnumbered(tx, fresh) : fresh;
  }

  /** Older archives have pipelines without numbers. Their commit and time identify these. */
  async #unnumbered(tx: Tx, lines: readonly ImportLine[]): Promise<readonly ImportLine[]> {
    const keyOf = ({ value }: ImportLine): string | null =>
      usableIid(value.iid) === null && typeof value.sha === 'string' && typeof value.created_at === 'string'
        ? `${value.sha} ${Date.parse(value.created_at)}`
        : null;
    const shas = lines.flatMap((line) => (keyOf(line) === null ? [] : String(line.value.sha)));
    if (shas.length === 0) return lines;
    const { rows } = await sql<{ key: string }>`
      select sha || ' ' || trunc(extract(epoch from created_at) * 1000) as key from pipelines
      where project_id = ${this.#row.project_id} and imported and sha = any (${shas}::text[])`.execute(tx.db);
    const taken = new Set(rows.map(({ key }) => key));
    const fresh = lines.filter((line) => !taken.has(keyOf(line) ?? ''));
    this.#skipped += lines.length - fresh.length;
    return fresh;
  }
}
