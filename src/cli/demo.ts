import { randomBytes } from 'node:crypto';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { styleText } from 'node:util';
import { Command } from 'commander';
import { removeEmbeddedPostgres } from '#platform/db/embedded.ts';
import { startHubProcess } from './hub-process.ts';
import { Journey } from './journey.ts';
import type { PipelineJourney, PipelineJourneyOptions } from './pipeline-journey.ts';
import { formatDuration, Steps } from './progress.ts';
import { Receiver } from './receiver.ts';

const ROOT = fileURLToPath(new URL('../..', import.meta.url));

interface Options {
  readonly repo: string;
  readonly archive?: string;
  readonly keep: boolean;
  readonly ci: boolean;
}

/** `npm run demo`: moves a real project through a fresh hub. Exits with 1 when any check fails. */
const main = async (): Promise<void> => {
  const options = new Command('demo')
    .description('Push a real project to a fresh hub, export it, import it elsewhere, and check that nothing was lost.')
    .option('--repo <path>', 'the git repository to push', ROOT)
    .option('--archive <file>', 'import this export archive as well')
    .option('--ci', 'run a pipeline instead: push a CI file, watch its jobs, and download an artifact', false)
    .option('--keep', 'keep serving at the end, until interrupted', false)
    .parse()
    .opts<Options>();

  const steps = new Steps();
  // The directory must be accessible to other users: when root runs the demo, the embedded Postgres has its own
  // account.
  const directory = await mkdtemp(join(tmpdir(), 'millrace-demo-'));
  const dataDir = join(directory, 'data');
  const receiver = new Receiver();
  const interrupted = new AbortController();
  for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interrupted.abort());
  let stopHub = async (): Promise<void> => {};
  try {
    const title = options.ci ? 'Millrace: a pipeline runs' : 'Millrace: a real project travels through the hub';
    steps.say(styleText('bold', title));
    const adminToken = `demo-${randomBytes(20).toString('hex')}`;
    const hub = await steps.run(
      'Start a hub in an empty directory',
      () =>
        startHubProcess({
          MILLRACE_PORT: '0',
          MILLRACE_HOST: '127.0.0.1',
          MILLRACE_EXTERNAL_URL: '',
          MILLRACE_ROLE: 'all',
          MILLRACE_STORAGE: 'local',
          MILLRACE_SECRET_KEY: '',
          MILLRACE_DATA_DIR: dataDir,
          MILLRACE_ADMIN_TOKEN: adminToken,
          MILLRACE_ADMIN_PASSWORD: randomBytes(16).toString('hex'),
          MILLRACE_LOG_LEVEL: 'warn',
          DATABASE_URL: '',
        }),
      ({ url }) => url,
    );
    stopHub = hub.stop;
    const places = { url: hub.url, adminToken, scratch: directory, steps };
    const journey = options.ci ? await pipelineJourney(places) : new Journey({ ...places, receiver });
    const aborted = new Promise<never>((_resolve, reject) => {
      interrupted.signal.addEventListener('abort', () => reject(new Error('interrupted')));
    });
    await Promise.race([journey.travel(options), aborted]);

    steps.say();
    for (const { name, durationMs } of steps.times) steps.say(`  ${formatDuration(durationMs).padStart(8)}  ${name}`);
    steps.say();
    for (const [label, url] of journey.links()) steps.say(`  ${label.padEnd(18)} ${url}`);
    steps.say();
    steps.say(styleText('green', options.ci ? 'The pipeline has succeeded.' : 'Everything arrived unchanged.'));
    if (options.keep) {
      steps.say(
        `Serving at ${hub.url} until you press Ctrl-C. Sign in to the API as root with the token ${adminToken}`,
      );
      await aborted.catch(() => {});
    }
  } finally {
    receiver.stop();
    await stopHub();
    await removeEmbeddedPostgres(dataDir);
    await rm(directory, { recursive: true, force: true });
  }
};

/** Loaded only when it is needed: the runner uses packages for development. */
const pipelineJourney = async (options: PipelineJourneyOptions): Promise<PipelineJourney> => {
  const { PipelineJourney: Loaded } = await import('./pipeline-journey.ts');
  return new Loaded(options);
};

main().then(
  () => process.exit(0),
  (error: unknown) => {
    console.error(styleText('red', error instanceof Error ? error.message : String(error)));
    process.exit(1);
  },
);
