import { execFile } from 'node:child_process';
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { buildSchema, parse, validate } from 'graphql';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { zipOf } from '../artifacts/support.ts';
import { ADMIN_TOKEN, useApp } from '../support/app.ts';
import { Protocol } from '../support/runner/protocol.ts';
import { appendTo, makeRunner } from '../support/runner/queue.ts';

// Runs the examples of docs/pipelines.md, docs/runners.md and docs/ci-file.md as they are written, one after the other.

const app = useApp();
const run = promisify(execFile);
const hasCurl = await run('curl', ['--version']).then(
  () => true,
  () => false,
);

const FILE = `
stages: [build, test]
build: {stage: build, script: [make], artifacts: {paths: [bin, version.txt]}}
test: {stage: test, script: [make test], parallel: 6, rules: [{when: on_success}]}
`;
const WRONG_FILE = 'test: {script: [x], scripts: [x]}\n';

/** The parts that differ between runs. */
const CHANGING = new Set(['id', 'slug', 'next_run_at']);

let folder = '';
let environment: Record<string, string> = {};
let registrationToken = '';
let runnerToken = '';

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-examples-'));
  const { make, root } = app();
  const client = app().as(root);
  const created = await client.post('/projects', { name: 'forge', default_branch: 'main' });
  expect(created.body).toMatchObject({ id: 1, path_with_namespace: 'root/forge' });
  const commit = async (id: number, branch: string, files: Record<string, string>, start_branch?: string) => {
    const actions = Object.entries(files).map(([file_path, content]) => ({ action: 'create', file_path, content }));
    const body = { branch, start_branch, commit_message: 'Change', actions };
    expect((await client.post(`/projects/${id}/repository/commits`, body)).status).toBe(201);
    await app().settle();
  };
  await commit(1, 'main', { '.gitlab-ci.yml': FILE });
  await commit(1, 'change', { README: 'x' }, 'main');
  const request = { source_branch: 'change', target_branch: 'main', title: 'Change' };
  expect((await client.post('/projects/1/merge_requests', request)).body.iid).toBe(1);
  const tools = await make.group({ path: 'tools', visibility: 'public' }, root);
  const lint = await make.project({ path: 'lint', namespace_id: tools.id, visibility: 'public' }, root);
  expect(lint).toMatchObject({ id: 2, path_with_namespace: 'tools/lint' });
  await commit(2, 'main', { README: 'lint' });
  const group = await make.group({ path: 'group' }, root);
  const checked = await make.project({ path: 'project', namespace_id: group.id }, root);
  await commit(checked.id, 'main', { README: 'x' });
  const review = { name: 'review/x', external_url: 'https://review-x.example.com', tier: 'development' };
  expect((await client.post('/projects/1/environments', review)).status).toBe(201);
  const trigger = await client.post('/projects/1/triggers', { description: 'example' });
  const runner = await makeRunner(app());
  expect(runner.id).toBe(1);
  runnerToken = runner.token;
  const job = await new Protocol({ url: app().url, token: runnerToken }).request();
  expect(job?.id).toBe(1);
  await appendTo(app(), 7, 'a line of the log\n'.repeat(100));
  await writeFile(join(folder, 'artifacts.zip'), await zipOf({ 'bin/app': 'app', 'version.txt': '1.2.3' }));
  await writeFile(join(folder, '.gitlab-ci.yml'), WRONG_FILE);
  await writeFile(join(folder, '.curlrc'), 'fail-with-body\nsilent\nshow-error\n');
  environment = {
    PATH: process.env.PATH ?? '',
    HOME: folder,
    HUB: app().url,
    TOKEN: ADMIN_TOKEN,
    ADMIN_TOKEN,
    TRIGGER: trigger.body.token,
    CI_JOB_TOKEN: job?.token ?? '',
  };
});
afterAll(() => rm(folder, { recursive: true, force: true }));

interface Block {
  readonly language: string;
  readonly text: string;
}

const blocksOf = async (path: string): Promise<Block[]> => {
  const page = await readFile(join(import.meta.dirname, '../..', path), 'utf8');
  return [...page.matchAll(/^```(\w*)\n([\s\S]*?)^```$/gm)].map(([, language = '', text = '']) => ({ language, text }));
};

const execute = async (text: string): Promise<string> => {
  const command = text
    .replaceAll('127.0.0.1:8080', new URL(app().url).host)
    .replace('glrt-...', runnerToken)
    .replace('GR1348941...', registrationToken);
  const { stdout } = await run('bash', ['--norc', '-euc', command], { cwd: folder, env: environment });
  return stdout;
};

/** Runs the commands of an example. Returns what they print. */
const runExample = async (text: string): Promise<string> => {
  // Artifacts are found by branch once their pipeline has succeeded.
  if (text.includes('/jobs/artifacts/main/')) {
    await app().hub.services.db.updateTable('pipelines').set({ status: 'success' }).where('id', '=', 1).execute();
  }
  if (!text.includes('/runners/reset_registration_token')) return execute(text);
  // The second command needs what the first one prints.
  const [first = '', ...rest] = text.trim().split('\n');
  registrationToken = JSON.parse(await execute(first)).token;
  return execute(rest.join('\n'));
};

/** Expects an answer to have what the page shows, up to `…`. */
const expectShown = (shown: string, answer: string): void => {
  const isCut = shown.includes(',…}');
  const [expected, actual] = [shown.replaceAll(',…}', '}'), answer].map((text) => {
    const value = JSON.parse(text);
    return Array.isArray(value) ? value[0] : value;
  });
  for (const name of CHANGING) {
    if (!(name in expected)) continue;
    expect(typeof actual[name]).toBe(typeof expected[name]);
    actual[name] = expected[name];
  }
  if (isCut) expect(actual).toMatchObject(expected);
  else expect(actual).toEqual(expected);
};

describe.skipIf(!hasCurl)('the examples', () => {
  it.each(['docs/pipelines.md', 'docs/runners.md', 'docs/ci-file.md'])(
    'of %s work as they are written',
    async (path) => {
      const schema = buildSchema(await readFile(join(import.meta.dirname, '../../schema/schema.graphql'), 'utf8'));
      let answer = '';
      let ran = 0;
      for (const { language, text } of await blocksOf(path)) {
        if (text.startsWith('curl ') || text.startsWith('git ')) {
          answer = await runExample(text);
          ran += 1;
        } else if (text.startsWith('{ project') || text.startsWith('subscription ')) {
          expect([text, validate(schema, parse(text))]).toEqual([text, []]);
          if (text.startsWith('subscription ')) continue;
          const { data, errors } = await app().as(app().root).graphql(text);
          expect([text, errors]).toEqual([text, undefined]);
          expect(data.project.pipelines.nodes).toHaveLength(1);
        } else if (language === '' || language === 'json') {
          expectShown(text, answer);
        }
      }
      expect(ran).toBeGreaterThan(0);
    },
  );
});
