import { parseArgs } from 'node:util';
import { tortureHooks } from './hooks.ts';
import { tortureStrangers } from './strangers.ts';

// `npm run torture -- hooks --rounds 50 --seed 7` kills hubs and the database, and checks the deliveries.
// `npm run torture -- strangers --rounds 50 --seed 7` attacks a hub while honest users work with it.
const tortures = { hooks: tortureHooks, strangers: tortureStrangers };
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    rounds: { type: 'string', default: '20' },
    seconds: { type: 'string', default: 'Infinity' },
    seed: { type: 'string', default: String(Date.now() % 100_000) },
  },
});
const [rounds, seed, seconds] = [Number(values.rounds), Number(values.seed), Number(values.seconds)];
const [which] = positionals;
if (
  (which !== 'hooks' && which !== 'strangers') ||
  !Number.isSafeInteger(rounds) ||
  rounds < 1 ||
  !Number.isSafeInteger(seed) ||
  !(seconds > 0)
) {
  console.error('Usage: npm run torture -- hooks|strangers [--rounds N] [--seed S] [--seconds N]');
  process.exit(2);
}
const verdict = await tortures[which]({ rounds, seed, seconds, say: (line) => console.log(line) });
console.log(JSON.stringify({ seed, ...verdict }, null, 2));
process.exit(verdict.problems.length === 0 ? 0 : 1);
