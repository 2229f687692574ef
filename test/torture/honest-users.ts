import { setTimeout as sleep } from 'node:timers/promises';
import { parentPort, workerData } from 'node:worker_threads';
import { randomFrom } from './bounded.ts';

// Honest users of the hub, on their own thread so that attacks on the main thread do not count as the hub's time.
// They stop at the first message and then report.

export interface HonestWork {
  readonly url: string;
  readonly tokens: readonly string[];
  readonly projectId: number;
  readonly projectPath: string;
  readonly seed: number;
  /** The time that each user waits between two requests. */
  readonly pauseMs: number;
  /** The number of requests that have succeeded so far, shared between the threads. */
  readonly answered: Int32Array<SharedArrayBuffer>;
}

export interface HonestReport {
  /** Each request that succeeded. */
  readonly answers: readonly HonestAnswer[];
  /** The kind and reason of each failed request. */
  readonly failures: readonly string[];
}

export interface HonestAnswer {
  readonly kind: string;
  readonly ms: number;
  /** When it came, in milliseconds since 1970. */
  readonly at: number;
}

const work: HonestWork = workerData;
const answers: HonestAnswer[] = [];
const failures: string[] = [];
let isOver = false;

const { projectId, projectPath } = work;
const query = `query ($path: ID!) {
  project(fullPath: $path) { name issues(first: 20) { nodes { iid title author { username } } } }
}`;

const requests: Readonly<Record<string, (token: string) => Request>> = {
  project: (token) => rest(token, `/projects/${projectId}`),
  issues: (token) => rest(token, `/projects/${projectId}/issues?per_page=20`),
  tree: (token) => rest(token, `/projects/${projectId}/repository/tree`),
  file: (token) => rest(token, `/projects/${projectId}/repository/files/README.md/raw?ref=main`),
  'new issue': (token) => rest(token, `/projects/${projectId}/issues`, { title: 'An honest question' }),
  GraphQL: (token) => post(token, '/api/graphql', { query, variables: { path: projectPath } }),
  refs: () => new Request(`${work.url}/${projectPath}.git/info/refs?service=git-upload-pack`),
};

const rest = (token: string, path: string, body?: object): Request =>
  body
    ? post(token, `/api/v4${path}`, body)
    : new Request(`${work.url}/api/v4${path}`, { headers: { 'private-token': token } });

const post = (token: string, path: string, body: object): Request =>
  new Request(`${work.url}${path}`, {
    method: 'POST',
    headers: { 'private-token': token, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });

const live = async (token: string, random: () => number): Promise<void> => {
  const kinds = Object.entries(requests);
  while (!isOver) {
    const [kind, make] = kinds[Math.floor(random() * kinds.length)] ?? [];
    if (!kind || !make) return;
    const startedAt = performance.now();
    try {
      const answer = await fetch(make(token));
      const text = await answer.text();
      const errors = kind === 'GraphQL' && answer.ok ? JSON.parse(text).errors : undefined;
      if (!answer.ok || errors) failures.push(`${kind}: ${answer.status} ${text.slice(0, 200)}`);
      else {
        answers.push({ kind, ms: performance.now() - startedAt, at: Date.now() });
        Atomics.add(work.answered, 0, 1);
      }
    } catch (error) {
      const reason = error instanceof Error ? `${error.message} ${String(error.cause ?? '')}` : String(error);
      failures.push(`${kind}: ${reason}`);
    }
    await sleep(random() * work.pauseMs);
  }
};

parentPort?.once('message', () => {
  isOver = true;
});
await Promise.all(work.tokens.map((token, index) => live(token, randomFrom(work.seed * 101 + index))));
const report: HonestReport = { answers, failures };
parentPort?.postMessage(report);
