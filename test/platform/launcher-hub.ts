import { createInterface } from 'node:readline';
import { createLauncher } from '#platform/git/process/launcher.ts';
import { createLogger } from '#platform/log.ts';

// Starts another process through a launcher and prints its output, until this process is killed.
const launcher = createLauncher(createLogger('silent'));
const [file = '', ...args] = process.argv.slice(2);
const { stdout } = await launcher.launch({
  file,
  args,
  cwd: '/',
  env: { PATH: process.env.PATH ?? '' },
  channel: false,
});
for await (const line of createInterface({ input: stdout })) console.log(line);
