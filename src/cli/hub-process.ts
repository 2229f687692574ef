import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { createInterface } from 'node:readline';
import { fileURLToPath } from 'node:url';

const MAIN = fileURLToPath(new URL('../main.ts', import.meta.url));
const START_TIMEOUT_MS = 120_000;
const STOP_TIMEOUT_MS = 12_000;
const KEPT_LOG_LINES = 30;

export interface HubProcess {
  readonly url: string;
  stop(): Promise<void>;
}

/**
 * Starts a hub in its own process, with the entry point of `npm start` and the given environment. Resolves once it
 * serves.
 */
export const startHubProcess = async (env: Readonly<Record<string, string>>): Promise<HubProcess> => {
  const child = spawn(process.execPath, [MAIN], {
    env: { ...process.env, ...env },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const logLines: string[] = [];
  createInterface({ input: child.stderr }).on('line', (line) => {
    logLines.push(line);
    if (logLines.length > KEPT_LOG_LINES) logLines.shift();
  });
  const url = await servingUrl(child).catch(async (error: unknown) => {
    await stop(child);
    throw new Error(`${error instanceof Error ? error.message : String(error)}\n${logLines.join('\n')}`);
  });
  return { url, stop: () => stop(child) };
};

const servingUrl = (child: ChildProcess): Promise<string> =>
  new Promise((resolve, reject) => {
    const timer = setTimeout(
      () => reject(new Error(`the hub did not start to serve within ${START_TIMEOUT_MS} ms`)),
      START_TIMEOUT_MS,
    );
    const settle = (act: () => void) => {
      clearTimeout(timer);
      act();
    };
    child.once('error', (error) => settle(() => reject(error)));
    child.once('exit', (code) => settle(() => reject(new Error(`the hub exited with code ${code}`))));
    if (!child.stdout) return;
    createInterface({ input: child.stdout }).on('line', (line) => {
      const serving = /^Millrace serves at (\S+)$/.exec(line);
      if (serving?.[1]) settle(() => resolve(serving[1] ?? ''));
    });
  });

const stop = async (child: ChildProcess): Promise<void> => {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGTERM');
  const timer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS);
  await gone;
  clearTimeout(timer);
};
