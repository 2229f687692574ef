import { sql } from 'kysely';
import { RUN_WHEN } from '#domains/ci-config/model.ts';
import { isObject } from '#platform/values/json.ts';
import type { ImportBatch } from '../importing/batch.ts';
import {
  actor,
  type Column,
  decimal,
  exported,
  flag,
  iidIfAny,
  integer,
  integerOr,
  type Json,
  moment,
  object,
  objectsIn,
  type Row,
  readRow,
  text,
  textOr,
  time,
  title,
  typesOf,
  usableIid,
  word,
} from './columns.ts';
import { arrayText } from './insert-rows.ts';
import { exportedNote, NoteWriter } from './notes.ts';
import { childList, childObject, nestedList, readTable } from './reading.ts';
import type { ImportLine, Relation } from './relation.ts';

/** The archive stores a stage's status as an index into this list (reference: export-archive §3). */
const STATUSES = [
  'created',
  'pending',
  'running',
  'success',
  'failed',
  'canceled',
  'skipped',
  'manual',
  'scheduled',
  'preparing',
  'waiting_for_resource',
  'canceling',
  'waiting_for_callback',
];
const FINISHED = new Set(['success', 'failed', 'canceled', 'skipped', 'manual']);

/** Returns a final status, because an imported pipeline cannot continue. */
const settled = (status: unknown): string => {
  const name = typeof status === 'number' ? STATUSES[status] : status;
  return typeof name === 'string' && FINISHED.has(name) ? name : 'canceled';
};

const columns: readonly Column[] = [
  iidIfAny(),
  text('ref', { max: 1_024 }),
  text('sha', { max: 255 }),
  text('before_sha', { max: 255 }),
  text('source_sha', { max: 255 }),
  text('target_sha', { max: 255 }),
  word('status', STATUSES, { otherwise: 'canceled' }),
  textOr('source', 'unknown', { max: 255 }),
  flag('tag'),
  text('config_source', { max: 255 }),
  text('failure_reason', { max: 1_024 }),
  text('yaml_errors'),
  flag('protected'),
  actor('user_id'),
  integer('duration'),
  decimal('coverage'),
  time('started_at'),
  time('finished_at'),
  time('committed_at'),
  moment('created_at'),
  moment('updated_at'),
];
const types = typesOf(columns, {
  id: 'bigint',
  project_id: 'bigint',
  name: 'text',
  merge_request_id: 'bigint',
  imported: 'boolean',
});

const stageColumns: readonly Column[] = [
  title('name'),
  integerOr('position', 0),
  moment('created_at'),
  moment('updated_at'),
];
const stageTypes = typesOf(stageColumns, { id: 'bigint', pipeline_id: 'bigint', status: 'text' });

const jobColumns: readonly Column[] = [
  title('name'),
  integer('stage_idx'),
  text('ref', { max: 1_024 }),
  flag('tag'),
  flag('allow_failure'),
  flag('retried'),
  flag('protected'),
  text('scheduling_type', { max: 255 }),
  object('options', '{}'),
  object('yaml_variables', '[]'),
  decimal('coverage'),
  actor('user_id'),
  text('environment', { max: 255 }),
  text('failure_reason', { max: 1_024 }),
  text('target_url', { max: 4_096 }),
  text('description', { max: 10_000 }),
  time('queued_at'),
  time('started_at'),
  time('finished_at'),
  time('erased_at'),
  actor('erased_by_id'),
  time('artifacts_expire_at'),
  integer('exit_code'),
  integer('timeout'),
  flag('interruptible'),
  word('when', RUN_WHEN, {
    column: 'run_when',
    otherwise: 'on_success',
  }),
  moment('created_at'),
  moment('updated_at'),
];
const MAX_TAGS = 50;
const MAX_NEEDS = 200;
const needColumns: readonly Column[] = [title('name'), flag('artifacts', { otherwise: true }), flag('optional')];
const needList = nestedList(
  'job_needs m',
  needColumns.map(({ key }) => `m.${key} as "${key}"`).join(', '),
  'm.job_id = n.id',
  'm.name',
);
const jobTypes = typesOf(jobColumns, {
  id: 'bigint',
  tags: 'text[]',
  project_id: 'bigint',
  pipeline_id: 'bigint',
  stage_id: 'bigint',
  kind: 'text',
  status: 'text',
});

/** The lists of jobs in a stage. Older archives have one list, `statuses`. */
const JOB_LISTS = [
  { key: 'builds', kind: 'build', type: 'Ci::Build' },
  { key: 'bridges', kind: 'bridge', type: 'Ci::Bridge' },
  { key: 'generic_commit_statuses', kind: 'generic_commit_status', type: 'GenericCommitStatus' },
] as const;

const kindOf = (status: Json): string => JOB_LISTS.find(({ type }) => type === status.type)?.kind ?? 'build';

const jobsOfStage = (kind: string, type: string): string =>
  nestedList(
    'jobs n',
    `${jobColumns.map(({ key, column }) => `n.${column} as "${key}"`).join(', ')}, n.status as "status", '${type}' as "type",
     to_json(n.tags) as "tag_list", ${needList} as "needs"`,
    `n.stage_id = t.id and n.kind = '${kind}'`,
  );
const statusNumber = (column: string): string =>
  `coalesce(array_position(array[${STATUSES.map((status) => `'${status}'`).join(', ')}], ${column}) - 1, 0)`;

export const ciPipelines: Relation = {
  name: 'ci_pipelines',
  alsoReads: ['notes', 'statuses'],
  reading: readTable(
    'pipelines',
    [
      ...columns,
      exported('pipeline_metadata', `case when t.name is not null then json_build_object('name', t.name) end`),
    ],
    [
      childList('stages', {
        from: 'stages t',
        parent: 't.pipeline_id',
        owner: 'pipelines',
        orderBy: 't.position, t.id',
        columns: [
          ...stageColumns,
          exported('status', statusNumber('t.status')),
          ...JOB_LISTS.map(({ key, kind, type }) => exported(key, jobsOfStage(kind, type))),
        ],
      }),
      childObject('merge_request', {
        from: 'pipelines t join merge_requests n on n.id = t.merge_request_id',
        parent: 't.id',
        owner: 'pipelines',
        columns: ['iid', 'title', 'state', 'source_branch', 'target_branch'].map((name) => exported(name, `n.${name}`)),
      }),
    ],
  ),
  async write(batch, lines) {
    const all = batch.read(lines, columns);
    const numbered = await batch.withoutTaken(
      'pipelines',
      all.filter(({ row }) => row.iid !== null),
    );
    const read = await number(
      batch,
      all
        .filter(({ row }) => row.iid === null)
        .concat(numbered)
        .sort((a, b) => a.line.index - b.line.index),
    );
    const ids = await batch.takeIds('pipelines', read.length);
    const mergeRequestId = await findMergeRequests(
      batch,
      read.map(({ line }) => line.value),
    );
    const below = new PipelineContents(batch);
    const rows = read.map(({ line, row }, index) => {
      const id = ids[index] ?? 0;
      const metadata = line.value.pipeline_metadata;
      Object.assign(row, {
        id,
        project_id: batch.place.project_id,
        status: settled(row.status),
        name: isObject(metadata) && typeof metadata.name === 'string' ? metadata.name.slice(0, 255) : null,
        merge_request_id: mergeRequestId(line.value),
        imported: true,
      });
      below.add(line, id);
      return row;
    });
    await batch.insert('pipelines', types, rows);
    await below.write();
  },
};

/** Numbers the pipelines of older archives, which have no numbers. */
const number = async (batch: ImportBatch, read: { readonly line: ImportLine; readonly row: Row }[]) => {
  if (read.every(({ row }) => row.iid !== null)) return read;
  const [found] = await batch.query(
    sql<{
      highest: number;
    }>`select coalesce(max(iid), 0) as highest from pipelines where project_id = ${batch.place.project_id}`,
  );
  let highest = Math.max(found?.highest ?? 0, ...read.map(({ row }) => Number(row.iid ?? 0)));
  for (const { row } of read) row.iid ??= ++highest;
  return read;
};

/** Returns a function from lines to merge request ids. Looks them up by number, because ids differ between hubs. */
const findMergeRequests = async (
  batch: ImportBatch,
  lines: readonly Json[],
): Promise<(line: Json) => number | null> => {
  const iidOf = (line: Json): number | null =>
    isObject(line.merge_request) ? usableIid(line.merge_request.iid) : null;
  const iids = lines.flatMap((line) => iidOf(line) ?? []);
  if (iids.length === 0) return () => null;
  const rows = await batch.query(sql<{ id: number; iid: number }>`
    select id, iid from merge_requests where project_id = ${batch.place.project_id} and iid = any (${iids}::int[])`);
  const ids = new Map(rows.map(({ id, iid }) => [iid, id]));
  return (line) => ids.get(iidOf(line) ?? 0) ?? null;
};

/** Writes the stages, jobs and, for old archives, notes of a batch of pipelines. */
class PipelineContents {
  readonly #batch: ImportBatch;
  readonly #notes: NoteWriter;
  readonly #stages: Row[] = [];
  readonly #jobs: { stage: number | null; row: Row; needs: readonly Row[] }[] = [];

  constructor(batch: ImportBatch) {
    this.#batch = batch;
    this.#notes = new NoteWriter(batch);
  }

  add(line: ImportLine, pipelineId: number): void {
    const batch = this.#batch;
    batch.children(line, line.value, 'stages', (stage) => {
      const index = this.#stages.length;
      const row = readRow(stageColumns, stage, batch.people);
      this.#stages.push({ ...row, pipeline_id: pipelineId, status: settled(stage.status) });
      for (const { key, kind } of JOB_LISTS) {
        batch.children(line, stage, key, (job) => this.#addJob(line, job, kind, pipelineId, index));
      }
      batch.children(line, stage, 'statuses', (job) => this.#addJob(line, job, kindOf(job), pipelineId, index));
    });
    batch.children(line, line.value, 'statuses', (job) => this.#addJob(line, job, kindOf(job), pipelineId, null));
    batch.children(line, line.value, 'notes', (note) => {
      this.#notes.add(line, { commit_id: line.value.sha, ...note }, { noteable_type: 'Commit' });
    });
  }

  #addJob(line: ImportLine, job: Json, kind: string, pipelineId: number, stage: number | null): void {
    const { people, place } = this.#batch;
    const needs = new Map<unknown, Row>();
    this.#batch.children(line, job, 'needs', (need) => {
      const row = readRow(needColumns, need, people);
      if (needs.size < MAX_NEEDS) needs.set(row.name, row);
    });
    const tags = objectsIn(job, 'tag_list').filter((tag) => typeof tag === 'string' && tag.length <= 255);
    this.#jobs.push({
      stage,
      needs: [...needs.values()],
      row: {
        ...readRow(jobColumns, job, people),
        project_id: place.project_id,
        pipeline_id: pipelineId,
        kind,
        tags: arrayText(tags.slice(0, MAX_TAGS).map(String)),
        status: settled(job.status),
      },
    });
  }

  async write(): Promise<void> {
    const ids = await this.#batch.takeIds('stages', this.#stages.length);
    for (const [index, row] of this.#stages.entries()) row.id = ids[index];
    const jobIds = await this.#batch.takeIds('jobs', this.#jobs.length);
    for (const [index, { stage, row }] of this.#jobs.entries())
      Object.assign(row, { id: jobIds[index], stage_id: stage === null ? null : ids[stage] });
    await this.#batch.insert('stages', stageTypes, this.#stages);
    await this.#batch.insert(
      'jobs',
      jobTypes,
      this.#jobs.map(({ row }) => row),
    );
    await this.#batch.insert(
      'job_needs',
      typesOf(needColumns, { job_id: 'bigint' }),
      this.#jobs.flatMap(({ row, needs }) => needs.map((need) => ({ ...need, job_id: row.id }))),
    );
    await this.#notes.write();
  }
}

export const commitNotes: Relation = {
  name: 'commit_notes',
  reading: readTable('notes', exportedNote, [], `t.project_id = $project and t.noteable_type = 'Commit'`),
  async write(batch, lines) {
    const notes = new NoteWriter(batch);
    for (const line of lines) {
      try {
        notes.add(line, line.value, { noteable_type: 'Commit' });
      } catch (error) {
        batch.fail(line, error);
      }
    }
    await notes.write();
  },
};
