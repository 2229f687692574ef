import { spawn } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import type { JobOrder, Variable } from './protocol.ts';

/** Replaces `$NAME`, `${NAME}` and `%NAME%` in values that are not raw. `$$` and unknown names stay. */
const expand = (variables: readonly Variable[]): Map<string, Variable> => {
  const last = new Map(variables.map((variable) => [variable.key, variable]));
  const read = (key: string, path: readonly string[]): string | undefined => {
    const variable = last.get(key);
    if (!variable || path.includes(key)) return undefined;
    if (variable.raw || variable.file) return variable.value;
    return expandText(variable.value, (name) => read(name, [...path, key]));
  };
  return new Map([...last].map(([key, variable]) => [key, { ...variable, value: read(key, []) ?? variable.value }]));
};

const expandText = (text: string, read: (name: string) => string | undefined): string =>
  text.replace(
    /\$\$|\$(\w+)|\$\{(\w+)\}|%(\w+)%/g,
    (whole, plain?: string, braced?: string, percent?: string) => read(plain ?? braced ?? percent ?? '') ?? whole,
  );

/** Writes the files of variables, and returns the environment of the job's scripts. */
export const environmentOf = async (
  job: JobOrder,
  folders: { readonly builds: string; readonly project: string },
): Promise<NodeJS.ProcessEnv> => {
  const files = join(folders.builds, 'variables');
  await mkdir(files, { recursive: true });
  const environment: NodeJS.ProcessEnv = { PATH: process.env.PATH, HOME: folders.builds, GIT_TERMINAL_PROMPT: '0' };
  for (const [key, { value, file }] of expand(job.variables)) {
    if (!file) environment[key] = value;
    else {
      const path = join(files, key);
      await writeFile(path, value);
      environment[key] = path;
    }
  }
  return { ...environment, CI_PROJECT_DIR: folders.project, CI_BUILDS_DIR: folders.builds };
};

/** Runs a command. Resolves to its exit code, or to null if it was killed. */
export const run = (
  command: string,
  args: readonly string[],
  options: {
    readonly cwd: string;
    readonly env: NodeJS.ProcessEnv;
    readonly onOutput: (text: string) => void;
    readonly signal: AbortSignal;
  },
): Promise<number | null> =>
  new Promise((resolve, reject) => {
    if (options.signal.aborted) return resolve(null);
    // A group of its own, so that what the script has started ends with it.
    const child = spawn(command, args, {
      cwd: options.cwd,
      env: options.env,
      detached: true,
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    const kill = () => {
      if (child.pid === undefined) return;
      try {
        process.kill(-child.pid, 'SIGKILL');
      } catch {
        // It has ended already.
      }
    };
    options.signal.addEventListener('abort', kill, { once: true });
    child.stdout.on('data', (chunk: Buffer) => options.onOutput(chunk.toString()));
    child.stderr.on('data', (chunk: Buffer) => options.onOutput(chunk.toString()));
    child.on('error', reject);
    child.on('close', (code) => {
      options.signal.removeEventListener('abort', kill);
      resolve(options.signal.aborted ? null : code);
    });
  });

/** Returns a shell script that prints each command and stops at the first failure. */
export const scriptOf = (commands: readonly string[]): string =>
  [
    'set -eo pipefail',
    ...commands.map(
      (command) => `echo ${quote(`\u001b[32;1m$ ${command.split('\n')[0] ?? ''}\u001b[0;m`)}\n${command}`,
    ),
  ].join('\n');

const quote = (text: string): string => `'${text.replaceAll("'", `'\\''`)}'`;
