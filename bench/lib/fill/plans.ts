import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import type pg from 'pg';

/** Reads the plans that Postgres logs for each statement. */
export interface Plans {
  /** Marks the current end of the log. */
  mark(): Promise<void>;
  /** Returns the statements since the mark. */
  since(): Promise<ExplainedStatement[]>;
  close(): Promise<void>;
}

export interface ExplainedStatement {
  readonly ms: number;
  /** Read from memory or disk. Unlike the time, it does not depend on other load on the machine. */
  readonly pages: number;
  readonly query: string;
  /** A line about the statement, and one for each node of its plan. */
  readonly text: string;
}

export interface PlanOptions {
  /** Shorter statements are left out. */
  readonly leastMs?: number;
  /** Whether to measure the time of each node too, which slows the statement down. */
  readonly timing?: boolean;
}

/** Statements that run in the background, and the authentication, which is the same for every list. */
const NOT_OF_THE_LIST =
  /personal_access_tokens|application_settings|hub_processes|graphile_worker|sequence_events|event_cursors|webhook_queue|bench\.fill/;

/**
 * Makes the embedded Postgres of a data directory log the plans of all sessions that start from now on, until closed.
 */
export const openPlans = async (
  pool: pg.Pool,
  dataDir: string,
  { leastMs = 0, timing = true }: PlanOptions = {},
): Promise<Plans> => {
  const log = await open(join(dataDir, 'postgres', 'postgres.log'));
  const settings = {
    session_preload_libraries: 'auto_explain',
    'auto_explain.log_min_duration': String(leastMs),
    'auto_explain.log_analyze': 'on',
    'auto_explain.log_buffers': 'on',
    'auto_explain.log_timing': timing ? 'on' : 'off',
    'auto_explain.log_format': 'json',
  };
  const each = async (statement: (name: string, value: string) => string) => {
    for (const [name, value] of Object.entries(settings)) {
      await pool.query(
        `do $$ begin execute format('alter database %I ${statement(name, value)}', current_database()); end $$`,
      );
    }
  };
  await each((name, value) => `set ${name} = ${value}`);
  let from = 0;
  return {
    mark: async () => {
      await sleep(PAUSE_MS);
      from = (await log.stat()).size;
    },
    since: async () => {
      await sleep(PAUSE_MS);
      const bytes = Buffer.alloc((await log.stat()).size - from);
      await log.read(bytes, 0, bytes.length, from);
      return explained(bytes.toString('utf8'));
    },
    close: async () => {
      await log.close();
      await each((name) => `reset ${name}`);
    },
  };
};

/** A backend writes its plan before it answers, but other backends of the request may still write. */
const PAUSE_MS = 10;

interface Node {
  readonly 'Node Type': string;
  readonly 'Parent Relationship'?: string;
  readonly 'Subplan Name'?: string;
  readonly 'Index Name'?: string;
  readonly 'Relation Name'?: string;
  readonly Alias?: string;
  readonly 'Scan Direction'?: string;
  readonly 'Actual Rows': number;
  readonly 'Actual Loops': number;
  readonly 'Actual Total Time'?: number;
  readonly 'Rows Removed by Filter'?: number;
  readonly 'Shared Hit Blocks': number;
  readonly 'Shared Read Blocks': number;
  readonly Plans?: readonly Node[];
}

const explained = (log: string): ExplainedStatement[] => {
  const parts = log.split(/^\S+ \S+ \S+ \[\d+\].*?LOG: {2}duration: ([\d.]+) ms {2}plan:\n/m);
  const statements: ExplainedStatement[] = [];
  for (let i = 1; i < parts.length; i += 2) {
    const lines = (parts[i + 1] ?? '').split('\n').filter((line) => line.startsWith('\t'));
    const entry = parsed(lines.join('\n'));
    if (entry === null) continue;
    const { 'Query Text': query, Plan: plan } = entry;
    if (NOT_OF_THE_LIST.test(query)) continue;
    const text = [`${summary(query)}: ${parts[i]} ms, ${blocks(plan)} pages`, ...tree(plan, 1)].join('\n');
    statements.push({ ms: Number(parts[i]), pages: blocks(plan), query, text });
  }
  return statements;
};

/** Returns null for an entry that another backend has written into. */
const parsed = (text: string): { 'Query Text': string; Plan: Node } | null => {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
};

const summary = (query: string): string => query.replace(/\s+/g, ' ').slice(0, 40);

const blocks = (node: Node): number => node['Shared Hit Blocks'] + node['Shared Read Blocks'];

/** Returns whether a node fetches rows of a page by their key, which is the same for every list. */
const isLookup = (node: Node): boolean =>
  node['Actual Loops'] > 1 && node['Actual Loops'] <= 100 && node['Actual Rows'] <= 1 && !node.Plans;

/** Nodes that only pass on the rows of the nodes below. */
const BETWEEN = /^(Nested Loop|Hash Join|Merge Join|Hash|Result|Subquery Scan|Materialize|Memoize)$/;

const tree = (node: Node, depth: number): string[] => {
  if (node['Actual Loops'] === 0 || isLookup(node)) return [];
  if (BETWEEN.test(node['Node Type'])) return (node.Plans ?? []).flatMap((child) => tree(child, depth));
  const rows = Math.round(node['Actual Rows'] * node['Actual Loops']);
  const removed = Math.round((node['Rows Removed by Filter'] ?? 0) * node['Actual Loops']);
  const what = [
    node['Subplan Name'] ? `${node['Subplan Name']}:` : '',
    node['Node Type'],
    node['Scan Direction'] === 'Backward' ? 'backward' : '',
    node['Index Name'] ? node['Index Name'] : '',
    node['Relation Name'] && !node['Index Name'] ? node['Relation Name'] : '',
  ].filter((part) => part !== '');
  const counts = [
    `rows ${rows}`,
    removed > 0 ? `of ${rows + removed}` : '',
    node['Actual Loops'] > 1 ? `in ${node['Actual Loops']} loops` : '',
  ].filter((part) => part !== '');
  const time = node['Actual Total Time'];
  const ms = time === undefined ? '' : `, ${(time * node['Actual Loops']).toFixed(2)} ms`;
  const line = `${'  '.repeat(depth)}${what.join(' ')} (${counts.join(' ')}, ${blocks(node)} pages${ms})`;
  return [line, ...(node.Plans ?? []).flatMap((child) => tree(child, depth + 1))];
};
