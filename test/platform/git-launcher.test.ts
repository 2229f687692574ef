import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { readFileSync } from 'node:fs';
import { mkdtemp, readdir, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import { afterAll, describe, expect, it } from 'vitest';
import { createLauncher, type Launched } from '#platform/git/process/launcher.ts';
import { createLogger } from '#platform/log.ts';
import { until } from '../support/until.ts';

const launcher = createLauncher(createLogger('silent'));
afterAll(() => launcher.close());

const sh = (script: string, { channel = false, from = launcher } = {}): Promise<Launched> =>
  from.launch({
    file: 'sh',
    args: ['-c', script],
    cwd: tmpdir(),
    env: { PATH: process.env.PATH ?? '', GREETING: 'grüß "dich"\n' },
    channel,
  });

const firstLine = async (stream: Readable): Promise<string> => {
  const [line = ''] = await once(createInterface({ input: stream }), 'line');
  return line;
};

/** Returns whether the process has ended. Also true for a zombie that is not reaped yet. */
const isGone = (pid: number): boolean => {
  try {
    return /^\d+ \(.*\) Z /.test(readFileSync(`/proc/${pid}/stat`, 'latin1'));
  } catch {
    return true;
  }
};

describe('a process started by the launcher', () => {
  it('has its own folder, environment, streams and exit code', async () => {
    const started = await sh('cat; pwd; printf %s "$GREETING"; env | wc -l; echo oh >&2; exit 7');
    started.stdin.end('in ');
    const [out, err, code] = await Promise.all([text(started.stdout), text(started.stderr), started.exited]);
    expect(out).toMatch(new RegExp(`^in ${tmpdir()}\ngrüß "dich"\n`));
    // PATH, the two lines of GREETING, and the variables that the shell adds: PWD, maybe SHLVL and _.
    expect(Number(/\s(\d+)\s*$/.exec(out)?.[1])).toBeLessThanOrEqual(6);
    expect([err, code]).toEqual(['oh\n', 7]);
  });

  it('has blocking streams and no other open file', async () => {
    const script =
      'for f in 0 1 2; do grep flags /proc/self/fdinfo/$f; done; ls /proc/$$/fd; read line <&3; echo "$line!" >&3';
    const started = await sh(script, { channel: true });
    const output = text(started.stdout);
    started.channel?.write('well\n');
    expect(await firstLine(started.channel ?? started.stderr)).toBe('well!');
    const lines = (await output).trim().split('\n');
    const flags = lines.filter((line) => line.startsWith('flags')).map((line) => Number.parseInt(line.slice(6), 8));
    expect(flags).toHaveLength(3);
    for (const each of flags) expect(each & 0o4000).toBe(0);
    expect(lines.filter((line) => /^\d+$/.test(line))).toEqual(expect.arrayContaining(['0', '1', '2', '3']));
    // dash keeps its script at 10; bash keeps 255.
    expect(lines.filter((line) => /^\d+$/.test(line) && Number(line) > 3 && Number(line) < 10)).toEqual([]);
    expect(await started.exited).toBe(0);
  });

  it('waits for a slow reader, and loses no output', async () => {
    const { stdin, stdout, exited } = await sh('cat');
    const chunk = Buffer.alloc(1024 * 1024, 'millrace');
    const sent = createHash('sha256');
    let chunks = 0;
    for (let isTaken = true; isTaken && chunks < 64; chunks += 1) {
      isTaken = stdin.write(chunk);
      sent.update(chunk);
    }
    expect(chunks).toBeLessThan(64);
    stdin.end();
    const received = createHash('sha256');
    for await (const part of stdout) received.update(part);
    expect(received.digest('hex')).toBe(sent.digest('hex'));
    expect(await exited).toBe(0);
  });

  it('does not affect the next ones if it cannot be started', async () => {
    const command = { args: [], cwd: '/', env: {}, channel: false };
    const absent = await launcher.launch({ ...command, file: '/no/such/program' });
    await expect(absent.exited).rejects.toThrow('ENOENT');
    const long = await launcher.launch({ ...command, file: '/bin/echo', args: ['x'.repeat(8 * 1024 * 1024)] });
    await expect(long.exited).rejects.toThrow('E2BIG');
    expect(await text((await sh('echo fine')).stdout)).toBe('fine\n');
  });

  it('gets its own streams, however many processes start at once', async () => {
    const said = await Promise.all(
      Array.from({ length: 60 }, async (_, n) => {
        const channel = n % 3 === 0;
        const started = await sh(channel ? 'cat; cat <&3' : 'cat', { channel });
        started.stdin.end(`${n}`);
        started.channel?.end('c');
        return text(started.stdout);
      }),
    );
    expect(said).toEqual(Array.from({ length: 60 }, (_, n) => (n % 3 === 0 ? `${n}c` : `${n}`)));
  });

  it('is ended by a signal, with all the processes it started', async () => {
    const { stdout, exited, signal } = await sh('sleep 1000 & echo started; wait');
    const lines = createInterface({ input: stdout });
    await once(lines, 'line');
    signal('SIGTERM');
    // The second process also holds the stream.
    await once(lines, 'close');
    expect(await exited).toBeNull();
    signal('SIGKILL');
  });

  it('takes its child processes along when it ends by itself', async () => {
    const { stdout, exited } = await sh('sleep 1000 & exit 3');
    expect(await text(stdout)).toBe('');
    expect(await exited).toBe(3);
  });

  it('is ended by a signal that arrives before the process has started', async () => {
    const { exited, signal } = await sh('sleep 1000');
    signal('SIGKILL');
    expect(await exited).toBeNull();
  });
});

describe('the launcher', () => {
  it('takes its processes along when it dies, and is replaced by a new launcher', async () => {
    const { stdout, exited } = await sh('echo $PPID $$; exec sleep 1000');
    const [launcherPid = 0, pid = 0] = (await firstLine(stdout)).split(' ').map(Number);
    // Messages arrive in order. Once another process has ended, the hub also knows the first.
    await (await sh('exit 0')).exited;
    process.kill(launcherPid, 'SIGKILL');
    expect(await exited).toBeNull();
    await until('what it ran has ended', () => isGone(pid));
    const next = await sh('echo $PPID');
    expect(Number(await text(next.stdout))).not.toBe(launcherPid);
  });

  it('ends with its processes when it is closed, and ignores signals meant for the hub', async () => {
    const other = createLauncher(createLogger('silent'));
    const { stdout, exited } = await sh('echo $PPID $$; exec sleep 1000', { from: other });
    const [launcherPid = 0, pid = 0] = (await firstLine(stdout)).split(' ').map(Number);
    process.kill(launcherPid, 'SIGTERM');
    process.kill(launcherPid, 'SIGINT');
    expect(await text((await sh('echo $PPID', { from: other })).stdout)).toBe(`${launcherPid}\n`);
    await other.close();
    expect(await exited).toBeNull();
    expect([isGone(pid), isGone(launcherPid)]).toEqual([true, true]);
  });

  it('ends with its processes and removes its socket when the hub is killed', async () => {
    const folder = await mkdtemp(join(tmpdir(), 'launcher-'));
    const hub = spawn(
      process.execPath,
      [fileURLToPath(new URL('launcher-hub.ts', import.meta.url)), 'sh', '-c', 'echo $PPID $$; exec sleep 1000'],
      { stdio: ['ignore', 'pipe', 'inherit'], env: { ...process.env, TMPDIR: folder } },
    );
    const [launcherPid = 0, pid = 0] = (await firstLine(hub.stdout)).split(' ').map(Number);
    expect(await readdir(folder)).toHaveLength(1);
    hub.kill('SIGKILL');
    await until('both have ended', () => isGone(pid) && isGone(launcherPid));
    expect(await readdir(folder)).toEqual([]);
    await rm(folder, { recursive: true });
  });
});
