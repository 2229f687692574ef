import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { Client } from '../support/client.ts';
import { commitFile, runGit } from '../support/git.ts';
import { until } from '../support/until.ts';
import { startProcess } from '../system/process.ts';
import { startFront } from './external.ts';

// `npm run bots` installs danger, renovate and semantic-release from the npm registry into a temporary folder, lets them
// work with a hub of its own, and prints what they were refused. `--packages DIR` uses packages that are installed there already. Nothing
// else leaves this machine: the versions that renovate finds come from a server here.

const PACKAGES = ['danger@14', 'renovate@44', 'semantic-release@24', '@semantic-release/gitlab@13'];
const TOKEN = 'administrator-token-of-the-bots';
const RUN_MS = 300_000;

const { values } = parseArgs({ options: { packages: { type: 'string' } } });
const folder = await mkdtemp(join(tmpdir(), 'millrace-bots-'));
const packages = values.packages ?? folder;
const problems: string[] = [];
const say = (line: string) => console.log(line);

interface Ran {
  readonly code: number;
  readonly output: string;
}

/** Runs a program of this Node with only these variables. */
const run = (file: string, args: readonly string[], cwd: string, env: Readonly<Record<string, string>>): Promise<Ran> =>
  new Promise((resolve) => {
    const options = {
      cwd,
      timeout: RUN_MS,
      maxBuffer: 64 * 1024 * 1024,
      env: { PATH: process.env.PATH, HOME: folder, ...env },
    };
    execFile(file, args, options, (error, stdout, stderr) => {
      resolve({ code: error ? (typeof error.code === 'number' ? error.code : 1) : 0, output: stdout + stderr });
    });
  });

const expectThat = (what: string, isSo: boolean, output = '') => {
  say(`${isSo ? 'ok' : 'PROBLEM'}: ${what}`);
  if (isSo) return;
  problems.push(what);
  if (output) say(output.split('\n').slice(-60).join('\n'));
};

if (!values.packages) {
  say(`installing ${PACKAGES.join(' and ')}`);
  const args = [
    'install',
    '--prefix',
    '.',
    '--ignore-scripts',
    '--omit=optional',
    '--no-audit',
    '--no-fund',
    ...PACKAGES,
  ];
  // The settings of the person who runs this say how to reach the registry: mirrors, proxies, certificates.
  const { HOME = folder, NODE_EXTRA_CA_CERTS = '' } = process.env;
  const installed = await run('npm', args, folder, { HOME, NODE_EXTRA_CA_CERTS });
  if (installed.code !== 0) throw new Error(installed.output);
}

const front = await startFront();
const hub = startProcess({
  MILLRACE_DATA_DIR: join(folder, 'data'),
  MILLRACE_PORT: '0',
  MILLRACE_ADMIN_TOKEN: TOKEN,
  MILLRACE_EXTERNAL_URL: front.url,
});

const root = new Client(front.url, async () => TOKEN);

const make = async (path: string, body: Record<string, unknown>) => {
  const answer = await root.post(path, body);
  if (answer.status !== 201) throw new Error(`POST ${path}: ${answer.status} ${JSON.stringify(answer.body)}`);
  return answer.body;
};

const commit = (project: number, branch: string, files: Readonly<Record<string, string>>, start_branch?: string) =>
  make(`/projects/${project}/repository/commits`, {
    branch,
    ...(start_branch ? { start_branch } : {}),
    commit_message: `Change ${Object.keys(files).join(', ')}`,
    actions: Object.entries(files).map(([file_path, content]) => ({ action: 'create', file_path, content })),
  });

/** Creates a user with a token. */
const makeBot = async (username: string): Promise<{ id: number; token: string }> => {
  const { id } = await make('/users', {
    username,
    name: `The bot ${username}`,
    email: `${username}@example.com`,
    force_random_password: true,
    skip_confirmation: true,
  });
  const { token } = await make(`/users/${id}/personal_access_tokens`, {
    name: 'bot',
    scopes: ['api', 'write_repository'],
  });
  return { id, token };
};

/** Prints what was refused since the last call. A 404 may be how a bot finds out that something is not there. */
const sayRefusals = (bot: string) => {
  const refused = front.answers.splice(0).filter(({ status }) => status >= 400);
  const counts = new Map<string, number>();
  for (const { status, method, path } of refused) {
    const line = `${status} ${method} ${path.replace(/\?.*/, '')}`;
    counts.set(line, (counts.get(line) ?? 0) + 1);
  }
  for (const [line, count] of counts) say(`${bot} was answered ${count} times: ${line}`);
  for (const { status, path } of refused) if (status >= 500) problems.push(`${status} for ${path}`);
};

const DANGERFILE = `
message('Read ' + danger.git.created_files.join(' '));
warn('The title is ' + danger.gitlab.mr.title);
markdown('Commits: ' + danger.gitlab.commits.length + ', approvals left: ' + danger.gitlab.approvals.approvals_left);
message('On this line', 'new.txt', 2);
schedule(async () => {
  const text = await danger.gitlab.utils.fileContents('new.txt', danger.gitlab.metadata.repoSlug, 'topic');
  message('It has ' + text.length + ' characters');
  await danger.gitlab.utils.addLabels('checked', 'by danger');
});
`;

const runDanger = async () => {
  const { id: projectId, path_with_namespace: path } = await make('/projects', {
    name: 'watched',
    initialize_with_readme: true,
  });
  const bot = await makeBot('danger');
  await make(`/projects/${projectId}/members`, { user_id: bot.id, access_level: 30 });
  await commit(projectId, 'topic', { 'new.txt': 'one\ntwo\nthree\n' }, 'main');
  const opened = await make(`/projects/${projectId}/merge_requests`, {
    source_branch: 'topic',
    target_branch: 'main',
    title: 'Add a file',
    labels: 'first',
  });
  const at = `/projects/${projectId}/merge_requests/${opened.iid}`;
  await until('the diff is ready', async () => (await root.get(at)).body.diff_refs !== null);
  const home = join(folder, 'dangerfile');
  await mkdir(home);
  await writeFile(join(home, 'dangerfile.js'), DANGERFILE);
  const env = {
    GITLAB_CI: 'true',
    CI: 'true',
    CI_MERGE_REQUEST_IID: String(opened.iid),
    CI_PROJECT_PATH: path,
    CI_API_V4_URL: `${front.url}/api/v4`,
    DANGER_GITLAB_HOST: front.url,
    DANGER_GITLAB_API_TOKEN: bot.token,
  };
  const main = join(packages, 'node_modules/danger/distribution/commands/danger-ci.js');
  front.answers.length = 0;
  for (const round of [1, 2]) {
    const ran = await run(process.execPath, [main, '--dangerfile', 'dangerfile.js'], home, env);
    expectThat(`danger ends well in round ${round}`, ran.code === 0, ran.output);
    const { body } = await root.get(`${at}/discussions`);
    const notes: { body: string; position?: { new_line: number | null } | null }[] = Array.isArray(body)
      ? body.flatMap((each) => each.notes)
      : [];
    const summaries = notes.filter((note) => note.body.includes('The title is Add a file'));
    expectThat(`danger has one summary after round ${round}`, summaries.length === 1, JSON.stringify(notes, null, 1));
    expectThat(
      `danger has one comment on line 2 after round ${round}`,
      notes.filter(({ position }) => position?.new_line === 2).length === 1,
      ran.output,
    );
    const { labels } = (await root.get(at)).body;
    expectThat(
      `danger has added its labels`,
      ['checked', 'by danger', 'first'].every((label) => labels.includes(label)),
    );
    sayRefusals('danger');
  }
};

/** Serves the versions that renovate finds: 2.0.0 is the newest of everything. */
const startVersions = async () => {
  const server = createServer((_request, response) => {
    response.setHeader('content-type', 'application/json');
    response.end(JSON.stringify({ releases: [{ version: '1.0.0' }, { version: '2.0.0' }] }));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const address = server.address();
  if (address === null || typeof address === 'string') throw new Error('the versions have no address');
  return { url: `http://127.0.0.1:${address.port}/{{packageName}}.json`, close: () => server.close() };
};

const runRenovate = async () => {
  const versions = await startVersions();
  const bot = await makeBot('renovate');
  const reviewer = await makeBot('reviewer');
  const { id: projectId, path_with_namespace: path } = await make('/projects', {
    name: 'renovated',
    initialize_with_readme: true,
  });
  for (const { id } of [bot, reviewer]) await make(`/projects/${projectId}/members`, { user_id: id, access_level: 40 });
  const config = {
    enabledManagers: ['custom.regex'],
    customManagers: [
      {
        customType: 'regex',
        managerFilePatterns: ['versions.txt'],
        matchStrings: ['(?<depName>[a-z]+)=(?<currentValue>\\S+)'],
        datasourceTemplate: 'custom.here',
        versioningTemplate: 'semver',
      },
    ],
    customDatasources: { here: { defaultRegistryUrlTemplate: versions.url } },
    dependencyDashboard: true,
    labels: ['dependencies', 'renovate'],
    assignees: ['root'],
    reviewers: ['reviewer'],
    rebaseWhen: 'behind-base-branch',
    prHourlyLimit: 0,
    prConcurrentLimit: 0,
    branchConcurrentLimit: 0,
    packageRules: [
      { matchPackageNames: ['merged'], automerge: true, platformAutomerge: false, ignoreTests: true },
      { matchPackageNames: ['waiting'], automerge: true, platformAutomerge: true },
    ],
  };
  await commit(projectId, 'main', {
    'versions.txt': 'plain=1.0.0\nmerged=1.0.0\nwaiting=1.0.0\n',
    'renovate.json': JSON.stringify(config),
  });
  const env = {
    RENOVATE_PLATFORM: 'gitlab',
    RENOVATE_ENDPOINT: `${front.url}/api/v4/`,
    RENOVATE_TOKEN: bot.token,
    RENOVATE_ONBOARDING: 'false',
    RENOVATE_REQUIRE_CONFIG: 'required',
    RENOVATE_BASE_DIR: join(folder, 'renovate'),
    RENOVATE_GIT_AUTHOR: 'Renovate <renovate@example.com>',
    RENOVATE_REPOSITORY_CACHE: 'disabled',
    LOG_LEVEL: 'debug',
  };
  const main = join(packages, 'node_modules/renovate/dist/renovate.js');
  const listed = async (): Promise<{ title: string; state: string; labels: string[]; reviewers: unknown[] }[]> =>
    (await root.get(`/projects/${projectId}/merge_requests?per_page=100`)).body;
  front.answers.length = 0;
  let output = '';
  for (const round of [1, 2, 3]) {
    const ran = await run(process.execPath, [main, path], folder, env);
    output = ran.output;
    expectThat(`renovate ends well in round ${round}`, ran.code === 0, output);
    sayRefusals('renovate');
  }
  versions.close();
  const found = await listed();
  const of = (name: string) => found.filter(({ title }) => title.includes(name));
  expectThat('renovate opens one merge request for each dependency', found.length === 3, output);
  expectThat(
    'renovate labels and assigns',
    of('plain').every((each) => each.labels.length === 2 && each.reviewers.length === 1),
  );
  expectThat(
    'renovate merges what it may merge itself',
    of('merged').every(({ state }) => state === 'merged'),
    output,
  );
  expectThat(
    'renovate leaves the others open',
    of('plain').every(({ state }) => state === 'opened'),
  );
  const dashboard = (await root.get(`/projects/${projectId}/issues`)).body;
  expectThat('renovate keeps one dashboard', dashboard.length === 1);
};

/** Lets semantic-release publish a release with a file, and a second one for a fix. */
const runSemanticRelease = async () => {
  const { id: projectId, path_with_namespace: path } = await make('/projects', {
    name: 'released',
    initialize_with_readme: true,
  });
  const bot = await makeBot('releaser');
  await make(`/projects/${projectId}/members`, { user_id: bot.id, access_level: 40 });
  const url = `${front.url}/${path}.git`;
  const config = {
    branches: ['main'],
    repositoryUrl: url,
    plugins: [
      '@semantic-release/commit-analyzer',
      '@semantic-release/release-notes-generator',
      ['@semantic-release/gitlab', { assets: [{ path: 'dist/*.txt', label: 'Text' }] }],
    ],
  };
  const tree = join(folder, 'released');
  await runGit(folder, 'clone', '--quiet', url.replace('://', `://oauth2:${bot.token}@`), tree);
  await mkdir(join(tree, 'dist'));
  await writeFile(join(tree, 'dist/a.txt'), 'text');
  await writeFile(join(tree, '.releaserc.json'), JSON.stringify(config));
  const env = {
    GITLAB_CI: 'true',
    CI: 'true',
    CI_COMMIT_REF_NAME: 'main',
    GITLAB_URL: front.url,
    GITLAB_TOKEN: bot.token,
  };
  const main = join(packages, 'node_modules/semantic-release/bin/semantic-release.js');
  front.answers.length = 0;
  for (const [version, message] of [
    ['1.0.0', 'feat: add a file'],
    ['1.0.1', 'fix: mend it'],
  ] as const) {
    await commitFile(tree, 'file.txt', message, message);
    await runGit(tree, 'push', '--quiet', 'origin', 'main');
    const ran = await run(process.execPath, [main], tree, env);
    expectThat(`semantic-release ends well for ${version}`, ran.code === 0, ran.output);
    const { status, body } = await root.get(`/projects/${projectId}/releases/v${version}`);
    expectThat(`semantic-release publishes ${version}`, status === 200, ran.output);
    expectThat(`semantic-release adds its file to ${version}`, body.assets?.links?.length === 1, ran.output);
    sayRefusals('semantic-release');
  }
};

try {
  front.target = await hub.url();
  await runDanger();
  await runRenovate();
  await runSemanticRelease();
} finally {
  await front.close();
  hub.child.kill('SIGTERM');
  await hub.ended;
  await rm(folder, { recursive: true, force: true });
}
say(problems.length === 0 ? 'All bots did their work.' : `${problems.length} problems`);
process.exit(problems.length === 0 ? 0 : 1);
