import { parseArgs } from 'node:util';
import { tortureArtifacts } from './artifacts.ts';
import { tortureHooks } from './hooks.ts';
import { tortureIngest } from './ingest.ts';
import { torturePipelines } from './pipelines.ts';
import { tortureStrangers } from './strangers.ts';
import { tortureTransfers } from './transfers.ts';

// `npm run torture -- hooks --rounds 50 --seed 7` kills hubs and the database, and checks the deliveries.
// `npm run torture -- ingest --rounds 50 --seed 7` kills them while SDKs report, and checks the events.
// `npm run torture -- pipelines --rounds 50 --seed 7` kills runners too, and checks pipelines, jobs and artifacts.
// `npm run torture -- artifacts --rounds 200 --seed 7` kills uploads and removals of artifacts, and checks their files.
// `npm run torture -- strangers --rounds 50 --seed 7` attacks a hub while honest users work with it.
// `npm run torture -- transfers --rounds 50 --seed 7` does the same to exports and imports of every kind. `--each 4`
// starts four of each kind in a round.
const tortures = {
  artifacts: tortureArtifacts,
  hooks: tortureHooks,
  ingest: tortureIngest,
  pipelines: torturePipelines,
  strangers: tortureStrangers,
  transfers: tortureTransfers,
};
const isTorture = (name: string | undefined): name is keyof typeof tortures => Object.hasOwn(tortures, name ?? '');
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '20' },
    seconds: { type: 'string', default: 'Infinity' },
    each: { type: 'string', default: '1' },
    seed: { type: 'string', default: String(Date.now() % 100_000) },
    help: { type: 'boolean', default: false },
  },
});
const USAGE = `Usage: npm run torture -- ${Object.keys(tortures).join('|')} [--rounds N] [--seed S] [--seconds N] [--each N]`;
if (values.help) {
  console.log(USAGE);
  process.exit(0);
}
const [rounds, seed, seconds] = [Number(values.rounds), Number(values.seed), Number(values.seconds)];
const each = Number(values.each);
const [which] = positionals;
if (
  !isTorture(which) ||
  !Number.isSafeInteger(rounds) ||
  rounds < 1 ||
  !Number.isSafeInteger(seed) ||
  !(seconds > 0) ||
  !(each > 0)
) {
  console.error(USAGE);
  process.exit(2);
}
const verdict = await tortures[which]({ rounds, seed, seconds, each, say: (line) => console.log(line) });
console.log(JSON.stringify({ seed, ...verdict }, null, 2));
process.exit(verdict.problems.length === 0 ? 0 : 1);
