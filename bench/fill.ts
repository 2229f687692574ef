import { parseArgs } from 'node:util';
import { LEAST_PROJECTS } from './lib/fill/data.ts';
import { openFilled } from './lib/fill/open.ts';
import { PEOPLE, WATCHED } from './lib/fill/watched.ts';

const HELP = `npm run bench:fill -- [--projects N | --scale [--divide N]] [--data DIR]

Fills an empty database with N projects, bypassing the API: in N/10 groups, with N/20 users, their memberships, shares
and stars, and one repository with 10,000 branches. For benches only: its tokens are public.

  --projects N   a multiple of ${LEAST_PROJECTS}; 1000000 by default, which takes a few minutes and 6 GB of disk
  --scale        1,000,000 projects with 5,000,000 issues, 2,000,000 merge requests, 10,000,000 notes, 20,000,000 events
                 with deliveries, and 10,000,000 jobs with artifacts, in 45 GB of disk and about half an hour
  --divide N     with --scale: the same shape in 1/N of the rows; at most ${1_000_000 / LEAST_PROJECTS}
  --data DIR     the hub's data directory (MILLRACE_DATA_DIR) for the repository and, without DATABASE_URL, the
                 embedded Postgres, which is kept. Start a hub on it: MILLRACE_DATA_DIR=DIR npm start
  DATABASE_URL   another Postgres to fill. Without --data no repository is created

A database that is already filled is only updated: migrated, and filled with the data of later migrations.`;

const main = async (): Promise<void> => {
  const { values } = parseArgs({
    options: {
      projects: { type: 'string' },
      scale: { type: 'boolean', default: false },
      divide: { type: 'string', default: '1' },
      data: { type: 'string' },
      help: { type: 'boolean', default: false },
    },
  });
  if (values.help) return console.log(HELP);
  const projects = Number(values.projects ?? 1_000_000 / Number(values.divide));
  if (!Number.isInteger(projects) || projects < LEAST_PROJECTS || projects % LEAST_PROJECTS !== 0)
    throw new Error(`The number of projects must be a multiple of ${LEAST_PROJECTS}.`);
  const start = performance.now();
  const place = { databaseUrl: process.env.DATABASE_URL ?? null, dataDir: values.data ?? null, scale: values.scale };
  const filled = await openFilled(place, projects, (line) => console.log(line));
  try {
    const { rows } = await filled.pool.query<Record<string, number>>(`
      select (select count(*) from projects) as projects, (select count(*) from namespaces where kind = 'group') as groups,
        (select count(*) from users) as users, (select count(*) from issues) as issues, (select count(*) from merge_requests)
          as merge_requests, (select count(*) from notes) as notes, (select count(*) from events) as events,
        (select count(*) from webhook_deliveries) as deliveries, (select count(*) from jobs) as jobs, (select count(*) from members) as members,
        (select count(*) from namespace_access) as access, (select count(*) from namespace_shares) as group_shares,
        (select count(*) from project_shares) as project_shares, (select count(*) from project_stars) as stars,
        pg_database_size(current_database()) / 1048576 as mib`);
    for (const [name, count] of Object.entries(rows[0] ?? {})) console.log(`${name.padEnd(34)} ${count}`);
    console.log(`\nReady after ${((performance.now() - start) / 1_000).toFixed(0)} s. Tokens (private-token):`);
    for (const { username, token } of Object.values(PEOPLE)) console.log(`${username.padEnd(34)} ${token}`);
    console.log(`10,000 branches: ${WATCHED.branches}${place.dataDir === null ? ' (no --data: no repository)' : ''}`);
  } finally {
    await filled.close();
  }
};

main().catch((error: unknown) => {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 1;
});
