import { type ChildProcess, spawn } from 'node:child_process';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { until } from '../support/until.ts';

const MAIN = join(import.meta.dirname, '../../src/main.ts');

export interface Process {
  readonly child: ChildProcess;
  /** The lines of standard output. `log` has those of standard error. */
  readonly out: readonly string[];
  readonly log: readonly string[];
  /** The exit code, or the signal that ended it. */
  readonly ended: Promise<number | string>;
  /** Returns its URL once it serves. Fails if it ends before that. */
  url(): Promise<string>;
}

/**
 * Starts the hub like `npm start`, in its own process group, with only PATH from this environment. `limits` are options of
 * `ulimit`.
 */
export const startProcess = (
  env: Readonly<Record<string, string>>,
  args: readonly string[] = [],
  limits = '-c 0',
): Process => {
  const limited = ['-c', `ulimit ${limits} && exec "$0" "$@"`, process.execPath, MAIN, ...args];
  return run('/bin/sh', limited, env);
};

/** Starts the hub with `npm start`. The child is npm. */
export const startWithNpm = (env: Readonly<Record<string, string>>): Process => run('npm', ['start'], env);

const run = (program: string, args: readonly string[], env: Readonly<Record<string, string>>): Process => {
  const child = spawn(program, args, {
    cwd: join(import.meta.dirname, '../..'),
    env: { PATH: process.env.PATH, HOME: process.env.HOME, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
  });
  const out: string[] = [];
  const log: string[] = [];
  createInterface({ input: child.stdout }).on('line', (line) => out.push(line));
  createInterface({ input: child.stderr }).on('line', (line) => log.push(line));
  let over: number | string | null = null;
  const ended = new Promise<number | string>((resolve) => {
    child.once('close', (code, signal) => {
      over = signal ?? code ?? -1;
      resolve(over);
    });
  });
  const url = () =>
    until('the hub to serve', () => {
      const line = out.map((each) => /^Millrace serves at (\S+)$/.exec(each)).find((match) => match !== null);
      if (!line && over !== null) throw new Error(`ended with ${over}:\n${[...out, ...log].join('\n')}`);
      return line?.[1];
    });
  return { child, out, log, ended, url };
};
