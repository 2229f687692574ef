import { once } from 'node:events';
import { glob } from 'node:fs/promises';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { until } from '../support/until.ts';
import { unpackFiles } from '../transfers/archive.ts';
import { serveFile } from '../transfers/archive-server.ts';
import { randomFrom } from './bounded.ts';
import type { Cluster } from './cluster.ts';
import { type Rounds, runRounds, type Scene, type TortureOptions } from './rounds.ts';

export interface TransferOptions extends TortureOptions {
  /** The number of transfers of each kind that a round starts. */
  readonly each?: number;
  /** The number of issues of each project. More of them make transfers longer, so that more are interrupted. */
  readonly issues?: number;
}

export interface TransfersVerdict {
  readonly exports: number;
  readonly imports: number;
  readonly relationImports: number;
  readonly finished: number;
  readonly failed: number;
  /** The problems. Empty if there are none. */
  readonly problems: readonly string[];
}

/** Rounds take turns with the sources. A request for an export that is still running would start no other one. */
const MAX_TURNS = 6;
/** A round waits up to three times for hubs, a minute each: on a busy machine a hub takes that long to start. */
const ROUND_MS = 300_000;
/** The time for hundreds of transfers on a busy machine. */
const DRAIN_MS = 1_800_000;

/**
 * Exports and imports projects in every way while hubs and Postgres are killed. Then lets the rest end, and checks that
 * each transfer is whole or has failed with a reason, with nothing missing, doubled or left behind.
 */
export const tortureTransfers = async (options: TransferOptions): Promise<Rounds & TransfersVerdict> =>
  runRounds((cluster) => new TransfersScene(cluster, options), options, ROUND_MS);

class TransfersScene implements Scene<TransfersVerdict> {
  readonly #cluster: Cluster;
  readonly #seed: number;
  #archive: Buffer = Buffer.alloc(0);
  #server: Server | null = null;
  #port = 0;
  readonly #each: number;
  readonly #issues: number;
  readonly #turns: number;
  #sourceIds: readonly number[] = [];

  constructor(cluster: Cluster, { seed, rounds, each = 1, issues = 3_000 }: TransferOptions) {
    this.#cluster = cluster;
    this.#seed = seed;
    this.#each = each;
    this.#issues = issues;
    this.#turns = Math.min(MAX_TURNS, rounds);
  }

  async prepare(): Promise<void> {
    const cluster = this.#cluster;
    await cluster.call('PUT', '/application/settings', { allow_local_requests_from_web_hooks_and_services: true });
    this.#sourceIds = await Promise.all(
      Array.from({ length: this.#turns * this.#each }, (_, n) => this.#createSource(n)),
    );
    for (const id of this.#sourceIds) await cluster.call('POST', `/projects/${id}/export`);
    await this.#settled();
    const [first] = this.#sourceIds;
    this.#archive = await cluster.download(`/projects/${first}/export/download`);
    this.#server = createServer((request, response) =>
      serveFile(request, response, { bytes: this.#archive, breakAfter: Math.ceil(this.#archive.length / 3) }),
    ).listen(0, '127.0.0.1');
    await once(this.#server, 'listening');
    this.#port = (this.#server.address() as AddressInfo).port;
  }

  #times<T>(make: (n: number) => T): T[] {
    return Array.from({ length: this.#each }, (_, n) => make(n));
  }

  async #createSource(n: number): Promise<number> {
    const cluster = this.#cluster;
    const { id } = await cluster.call('POST', '/projects', { name: `source-${n}`, initialize_with_readme: true });
    await cluster.query(
      `with issue as (insert into issues (project_id, iid, title, description)
         select $1, n, 'Issue ' || n, repeat(md5(n::text), 20) from generate_series(1, $2::int) n returning id, iid)
       insert into notes (project_id, noteable_type, issue_id, note, discussion_id)
       select $1, 'Issue', id, 'Note', md5(iid::text) || '00000000' from issue`,
      [id, this.#issues],
    );
    return id;
  }

  /** Starts transfers of each kind and breaks something at the same time. Returns what was done. */
  async round(round: number): Promise<string> {
    const random = randomFrom(this.#seed * 10_007 + round);
    const cluster = this.#cluster;
    await cluster.waitForHubs();
    // Now and then the requests themselves are cut off.
    const breaks = random() < 0.3 ? cluster.break(random) : null;
    // Answers may be lost. The database shows at the end which transfers exist.
    const begun = await Promise.allSettled([
      ...this.#sourcesOf(round).map((id) => cluster.call('POST', `/projects/${id}/export`)),
      ...this.#times((n) => cluster.call('POST', '/projects/import', this.#form({ path: `file-${round}-${n}` }))),
      ...this.#times((n) =>
        cluster.call('POST', '/projects/remote-import', {
          path: `remote-${round}-${n}`,
          url: `http://127.0.0.1:${this.#port}/export.tar.gz`,
        }),
      ),
      ...this.#times((n) => this.#importRelation(`target-${round}-${n}`)),
    ]);
    const broken = (await breaks) ?? 'nothing broken meanwhile';
    await cluster.waitForHubs();
    // Now the work is under way.
    const again = await cluster.break(random);
    return `${begun.filter(({ status }) => status === 'fulfilled').length} transfers, ${broken}, ${again}`;
  }

  #sourcesOf(round: number): readonly number[] {
    const first = (round % this.#turns) * this.#each;
    return this.#sourceIds.slice(first, first + this.#each);
  }

  async #importRelation(name: string): Promise<void> {
    const { path_with_namespace: path } = await this.#cluster.call('POST', '/projects', { name });
    await this.#cluster.call('POST', '/projects/import-relation', this.#form({ path, relation: 'issues' }));
  }

  #form(fields: Readonly<Record<string, string>>): FormData {
    const form = new FormData();
    for (const [name, value] of Object.entries(fields)) form.set(name, value);
    form.set('file', new Blob([new Uint8Array(this.#archive)], { type: 'application/gzip' }), 'export.tar.gz');
    return form;
  }

  async #settled(): Promise<void> {
    const unfinished = async () => {
      const [row] = await this.#cluster.query(
        `select count(*)::int as n from transfers where status not in ('finished', 'failed')`,
      );
      return row?.n;
    };
    await until('all transfers have ended', async () => (await unfinished()) === 0, DRAIN_MS);
  }

  async calm(): Promise<void> {
    await this.#cluster.recover();
    await this.#settled();
    const due = async () => {
      const [row] = await this.#cluster.query(
        `select count(*)::int as n from graphile_worker.jobs where task_identifier = 'files.remove'`,
      );
      return row?.n;
    };
    await until('all files that are due have been removed', async () => (await due()) === 0, DRAIN_MS);
  }

  async judge(): Promise<TransfersVerdict> {
    const cluster = this.#cluster;
    const problems: string[] = [];
    const transfers = await cluster.query(
      `select t.kind, t.status, t.error, p.path, t.project_id,
         (select count(*)::int from issues i where i.project_id = t.project_id) as issues,
         (select count(distinct iid)::int from issues i where i.project_id = t.project_id) as numbers,
         (select count(*)::int from notes n where n.project_id = t.project_id) as notes,
         (select count(*)::int from import_failures f where f.project_id = t.project_id) as failures
       from transfers t join projects p on p.id = t.project_id`,
    );
    for (const { kind, status, error, path, issues, numbers, notes, failures } of transfers) {
      const what = `${String(kind)} of ${String(path)}`;
      if (status === 'failed' && !error) problems.push(`${what} failed without a reason`);
      if (status === 'failed') problems.push(`${what} failed: ${String(error)}`);
      if (status === 'finished' && (issues !== this.#issues || numbers !== this.#issues || notes !== this.#issues))
        problems.push(`${what} has ${String(issues)} issues, ${String(numbers)} numbers, ${String(notes)} notes`);
      if (failures !== 0) problems.push(`${what} has ${String(failures)} failed items`);
    }
    for (const id of this.#sourceIds) {
      const archive = await unpackFiles(await cluster.download(`/projects/${id}/export/download`));
      const lines = archive.get('tree/project/issues.ndjson')?.toString().trim().split('\n').length;
      if (lines !== this.#issues) problems.push(`the last export of ${id} has ${lines} issues`);
    }
    problems.push(...(await this.#leftovers()));
    const of = (kind: string) => transfers.filter((each) => each.kind === kind).length;
    return {
      exports: of('export'),
      imports: of('import'),
      relationImports: of('relation_import'),
      finished: transfers.filter(({ status }) => status === 'finished').length,
      failed: transfers.filter(({ status }) => status === 'failed').length,
      problems,
    };
  }

  /** Files that no row refers to. Uploads whose request died are removed after a day, so they do not count. */
  async #leftovers(): Promise<string[]> {
    const rows = await this.#cluster.query(
      `select storage_key from project_exports where storage_key is not null
       union all select unnest(storage_key || download_parts) from project_imports
       union all select storage_key from relation_imports where storage_key is not null`,
    );
    const known = new Set(rows.map(({ storage_key }) => String(storage_key)));
    const found: string[] = [];
    for (const folder of ['exports', 'imports']) {
      const place = join(this.#cluster.dataDir, 'storage');
      for await (const file of glob(`${folder}/**/*.{tar.gz,part}`, { cwd: place }))
        if (!known.has(file)) found.push(`${file} belongs to no transfer`);
    }
    for await (const file of glob('tmp/*', { cwd: this.#cluster.dataDir })) found.push(`${file} was left`);
    for await (const file of glob('repositories/**/*.incoming-*', { cwd: this.#cluster.dataDir }))
      found.push(`${file} was left`);
    return found;
  }

  async close(): Promise<void> {
    this.#server?.closeAllConnections();
    this.#server?.close();
  }
}
