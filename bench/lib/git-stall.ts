import { createLauncher } from '../../src/platform/git/process/launcher.ts';
import { createLogger } from '../../src/platform/log.ts';

// Measures how long starting git blocks the event loop of a process with 200 MiB, in milliseconds. `node git-stall.ts`
// prints the 50th and 99th percentile of 1,000 starts.
const STARTS = 1_000;
const RESIDENT = 200 * 1024 * 1024;

const ballast: unknown[] = [];
while (process.memoryUsage.rss() < RESIDENT) {
  for (let i = 0; i < 10_000; i++) ballast.push({ i, text: `object ${ballast.length}` });
}
const launcher = createLauncher(createLogger('warn'));
const command = { file: 'git', args: ['version'], cwd: '/', env: { PATH: process.env.PATH ?? '' }, channel: false };
const start = async (): Promise<number> => {
  const before = performance.now();
  // Once the launcher is running, this resolves before anything else gets a turn.
  const { stdin, stdout, stderr, exited } = await launcher.launch(command);
  const stalled = performance.now() - before;
  stdin.end();
  for (const stream of [stdin, stdout, stderr]) stream.resume();
  await exited;
  return stalled;
};
for (let i = 0; i < 20; i++) await start();
const stalls: number[] = [];
for (let i = 0; i < STARTS; i++) stalls.push(await start());
stalls.sort((a, b) => a - b);
await launcher.close();
console.log(JSON.stringify({ p50: stalls[STARTS / 2], p99: stalls[(STARTS * 99) / 100], kept: ballast.length }));
