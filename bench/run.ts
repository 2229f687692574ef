import { branches } from './benches/branches.ts';
import { ci } from './benches/ci.ts';
import { errorLists } from './benches/error-lists.ts';
import { gitWrites } from './benches/git-writes.ts';
import { graphqlFlat } from './benches/graphql-flat.ts';
import { graphqlNested } from './benches/graphql-nested.ts';
import { groups } from './benches/groups.ts';
import { hooks } from './benches/hooks.ts';
import { hooksHanging } from './benches/hooks-hanging.ts';
import { ingest } from './benches/ingest.ts';
import { markdown } from './benches/markdown.ts';
import { mergeRequests } from './benches/merge-requests.ts';
import { projectsAtScale } from './benches/projects-at-scale.ts';
import { restProjects } from './benches/rest-projects.ts';
import { scale } from './benches/scale.ts';
import { signIns } from './benches/sign-ins.ts';
import { sse5000 } from './benches/sse-5000.ts';
import { start } from './benches/start.ts';
import { exportIssues, importIssues, transfersLarge } from './benches/transfers.ts';
import { transfersLists } from './benches/transfers-lists.ts';
import { type Options, readOptions } from './lib/options.ts';
import { describe, type Outcome, saveResult } from './lib/report.ts';
import { openWorld, type World } from './lib/world.ts';

/** `npm run bench` runs all benches, `npm run bench -- NAME...` runs some. See lib/options.ts for the options. */
const benches: Readonly<Record<string, (world: World, options: Options) => Promise<Outcome>>> = {
  'rest-projects': restProjects,
  'projects-at-scale': projectsAtScale,
  scale,
  branches,
  'git-writes': gitWrites,
  groups,
  'merge-requests': mergeRequests,
  ci,
  'error-lists': errorLists,
  'graphql-flat': graphqlFlat,
  'graphql-nested': graphqlNested,
  'import-50k': importIssues,
  'export-50k': exportIssues,
  'transfers-lists': transfersLists,
  'transfers-large': transfersLarge,
  hooks,
  'hooks-hanging': hooksHanging,
  ingest,
  'sse-5000': sse5000,
  'sign-ins': signIns,
  markdown,
  start,
};

/** Takes many minutes, so it runs only by name. */
const LONG = new Set(['scale', 'transfers-large']);

const main = async (): Promise<void> => {
  const { names, options } = readOptions(process.argv.slice(2));
  const unknown = names.filter((name) => !Object.hasOwn(benches, name));
  if (unknown.length > 0) {
    console.error(`Unknown bench: ${unknown.join(', ')}. Allowed: ${Object.keys(benches).join(', ')}.`);
    process.exitCode = 2;
    return;
  }
  const world = await openWorld();
  const stop = () => void world.close().finally(() => process.exit(130));
  process.once('SIGINT', stop).once('SIGTERM', stop);
  try {
    for (const [name, bench] of Object.entries(benches)) {
      if (names.length > 0 ? !names.includes(name) : LONG.has(name)) continue;
      try {
        const outcome = await bench(world, options);
        console.log(describe(name, outcome));
        // A run of only some lists, or of plans, is not a result of the whole bench.
        if (options.only === undefined && !options.plans) await saveResult(name, outcome);
      } catch (error) {
        // Continue: the other benches may still succeed.
        console.error(`FAILED  ${name}:`, error);
        process.exitCode = 1;
      }
    }
  } finally {
    await world.close();
  }
};

await main();
// A failed bench may have left handles open.
process.exit();
