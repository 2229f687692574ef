import { execFile } from 'node:child_process';
import { chmod, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { releaseScript } from '#domains/runner-protocol/release-step.ts';

const run = promisify(execFile);

const RELEASE = {
  tag_name: 'v$VERSION',
  name: 'It\'s "good"',
  description: 'Not run: `false` $(false) \\ \n- second line of $VERSION',
  ref: '$CI_COMMIT_SHA',
  released_at: '2026-11-27T00:00:00Z',
  milestones: ['m 1', 'm2'],
  assets: { links: [{ name: 'a "b"', url: 'https://example.org/?a=1&b=$VERSION' }] },
};
const VARIABLES = {
  VERSION: '1.2',
  CI_COMMIT_SHA: 'abc',
  CI_JOB_TOKEN: 'glcbt-1',
  CI_PROJECT_PATH: 'group/project',
  CI_SERVER_URL: 'http://127.0.0.1:8080',
  CI_SERVER_FQDN: '127.0.0.1:8080',
  CI_SERVER_PROTOCOL: 'http',
};
const DESCRIPTION = 'Not run: `false` $(false) \\ \n- second line of 1.2';
const LINK = { name: 'a "b"', url: 'https://example.org/?a=1&b=1.2' };

let folder = '';
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'millrace-release-'));
});
afterAll(() => rm(folder, { recursive: true, force: true }));

/** Runs the script where only this tool is installed. Returns the arguments of its calls. */
const callsOf = async (tool: string, script: readonly string[], exit = 0): Promise<string[][]> => {
  const bin = join(folder, `${tool}-${exit}`);
  await mkdir(bin, { recursive: true });
  const stub = `#!/bin/bash\nprintf '%s\\0' "\${GITLAB_HOST:-no host}" "$@"\nprintf '\\n\\0'\nexit ${exit}\n`;
  await writeFile(join(bin, tool), stub);
  await chmod(join(bin, tool), 0o755);
  const { stdout } = await run('/bin/bash', ['-ec', script.join('\n')], { env: { ...VARIABLES, PATH: bin } });
  return stdout
    .split('\n\0')
    .slice(0, -1)
    .map((call) => call.split('\0').slice(0, -1));
};

describe('the release step of a job', () => {
  it('signs in with the token of the job and makes the release with glab', async () => {
    const [login, create, ...others] = await callsOf('glab', releaseScript(RELEASE, 'linux'));
    expect(login).toEqual([
      ...['no host', 'auth', 'login', '--job-token', 'glcbt-1', '--hostname', '127.0.0.1:8080'],
      ...['--api-protocol', 'http'],
    ]);
    const links = create?.[create.indexOf('--assets-links') + 1] ?? '';
    expect(JSON.parse(links)).toEqual([LINK]);
    expect(create).toEqual([
      ...['http://127.0.0.1:8080', '-R', 'group/project', 'release', 'create', 'v1.2', '--name', 'It\'s "good"'],
      ...['--notes', DESCRIPTION, '--ref', 'abc', '--released-at', '2026-11-27T00:00:00Z'],
      ...['--milestone', 'm 1', '--milestone', 'm2', '--assets-links', links, '--no-update', '--no-close-milestone'],
    ]);
    expect(others).toEqual([]);
  });

  it('falls back to the older tool, which is also that of Windows', async () => {
    const [create, ...others] = await callsOf('release-cli', releaseScript(RELEASE, undefined));
    const link = create?.at(-1) ?? '';
    expect(JSON.parse(link)).toEqual(LINK);
    expect(create).toEqual([
      ...['no host', 'create', '--name', 'It\'s "good"', '--description', DESCRIPTION, '--tag-name', 'v1.2'],
      ...['--ref', 'abc', '--released-at', '2026-11-27T00:00:00Z', '--milestone', 'm 1', '--milestone', 'm2'],
      ...['--assets-link', link],
    ]);
    expect(others).toEqual([]);
    const { milestones: _milestones, assets: _assets, ...plain } = RELEASE;
    expect(releaseScript({ ...plain, milestones: 'only' }, 'windows')).toEqual([
      expect.stringMatching(/^release-cli create .*--milestone "only"$/s),
    ]);
  });

  it('fails if the tool fails', async () => {
    await expect(callsOf('glab', releaseScript(RELEASE, 'linux'), 3)).rejects.toMatchObject({ code: 3 });
  });
});
