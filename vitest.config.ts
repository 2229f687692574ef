import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import { defineConfig } from 'vitest/config';
import Durations from './test/support/durations.ts';
import Flaky from './test/support/flaky.ts';
import Results from './test/support/results.ts';
import Sequencer from './test/support/sequencer.ts';
import Unreached from './test/support/unreached.ts';

// Workers share the cache of compiled code with the hub (src/main.ts), so that each finds what an earlier process compiled.
process.env.NODE_COMPILE_CACHE ??= join(import.meta.dirname, 'node_modules/.cache/millrace');

const KITS = ['test/graphql/**/*.test.ts'];
const SOAK = ['test/**/*.soak.test.ts'];
/** The path for the results, which `.ci/run` reads. */
const results = process.env.TEST_RESULTS;
/** `.ci/run` runs all tests at once, and workers then keep their modules between both kinds. */
const together = results !== undefined;

export default defineConfig({
  plugins: [
    {
      name: 'production conditions',
      // Tests the code that the hub runs: vitest would load the development copy of packages that have one (graphql).
      configResolved: ({ ssr }) => {
        if (ssr.resolve) ssr.resolve.conditions = ['node'];
      },
    },
  ],
  test: {
    projects: [
      {
        extends: true,
        test: { name: 'hub', include: ['test/**/*.test.ts'], exclude: together ? KITS : [...KITS, ...SOAK] },
      },
      // Long tests: crashes, sweeps, torture, browsers, third-party clients. Only `npm run test:soak` runs them, `npm test`
      // does not.
      { extends: true, test: { name: 'soak', include: together ? [] : SOAK } },
      // These tests add types to the schema, which the hub of another file must not have.
      // Few and short, so that two workers save more by importing the hub less often.
      {
        extends: true,
        test: {
          name: 'kits',
          include: KITS,
          exclude: together ? [] : SOAK,
          maxWorkers: 2,
          sequence: { groupOrder: 1 },
        },
      },
    ],
    globalSetup: ['test/support/global-setup.ts'],
    // Generous, because test machines may be busy. A test that hangs is still found.
    testTimeout: 300_000,
    hookTimeout: 300_000,
    expect: { poll: { timeout: 60_000, interval: 20 } },
    // `.ci/run` repeats a failed test once, and names it if it then passes. Everywhere else the first failure counts.
    retry: results ? 1 : 0,
    pool: 'forks',
    // Twice the default, because hubs that start and stop fill it quickly. This saves 8 % of the CPU time.
    execArgv: ['--min-semi-space-size=32', '--max-semi-space-size=32'],
    // Tests wait as much as they compute: on Postgres, git and processes. More than six workers would need more
    // connections.
    maxWorkers: Math.min(availableParallelism() + 2, 6),
    // A worker keeps its modules from file to file, because importing the hub takes longer than most files. State that
    // one file leaves behind shows as a failure of another. `vitest run --isolate` then tells them apart.
    isolate: false,
    reporters: ['default', new Durations(), new Flaky(), new Unreached(), ...(results ? [new Results(results)] : [])],
    sequence: { sequencer: Sequencer },
    // Node itself loads the source, as for the hub: the same module resolution, in half the time of vitest's module
    // runner.
    experimental: { viteModuleRunner: false, nodeLoader: false },
  },
});
