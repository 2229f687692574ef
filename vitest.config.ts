import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import Durations from './test/support/durations.ts';
import Sequencer from './test/support/sequencer.ts';
import Unreached from './test/support/unreached.ts';

// For the workers and the hubs they start: what was compiled once is not compiled again for each test file.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, 'node_modules/.cache/millrace-tests');

const KITS = ['test/graphql/**/*.test.ts', 'test/rest/**/*.test.ts'];
const SOAK = ['test/**/*.soak.test.ts'];
/** Where the results go as JSON too; `.ci/run` reads them. */
const results = process.env.TEST_RESULTS;
const json: ['json', { outputFile: string }][] = results ? [['json', { outputFile: results }]] : [];

export default defineConfig({
  plugins: [
    {
      name: 'conditions of production',
      // What the hub runs is tested: vitest would ask for the development copy of packages that have one (graphql).
      configResolved: ({ ssr }) => {
        if (ssr.resolve) ssr.resolve.conditions = ['node'];
      },
    },
  ],
  test: {
    projects: [
      { extends: true, test: { name: 'hub', include: ['test/**/*.test.ts'], exclude: [...KITS, ...SOAK] } },
      // What takes long: crashes, torture, browsers, other people's clients. `npm test` leaves them to `npm run test:soak`.
      { extends: true, test: { name: 'soak', include: SOAK } },
      // These declare routes and types of their own, which the hub of another file must not meet.
      { extends: true, test: { name: 'kits', include: KITS, exclude: SOAK, isolate: true } },
    ],
    globalSetup: ['test/support/global-setup.ts'],
    // Generous: machines that run tests do other things too, and a test that hangs is found as well after a while.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 60_000, interval: 20 } },
    pool: 'forks',
    // Tests wait as much as they compute: on Postgres, on git, on processes. More than six would need more connections.
    maxWorkers: Math.min(availableParallelism() + 1, 6),
    // A worker runs file after file with the modules it has: to import the hub costs more than most files. What a file
    // leaves behind shows as a failure of another; `vitest run --isolate` then tells them apart.
    isolate: false,
    reporters: ['default', new Durations(), new Unreached(), ...json],
    sequence: { sequencer: Sequencer },
    // Node itself loads the source, as it does for the hub: the same resolution, and half the time of the module runner.
    experimental: { viteModuleRunner: false, nodeLoader: false },
  },
});
