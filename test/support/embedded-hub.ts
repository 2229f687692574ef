import pg from 'pg';
import { startEmbeddedPostgres } from '#platform/db/embedded.ts';
import { createLogger } from '#platform/log.ts';

// A hub reduced to its database: `node embedded-hub.ts <dataDir> <sharedDirectory>`. Prints the URL when it is up.
// On SIGINT it prints that the database still answers, stops it and prints that too.
const [dataDir = '', sharedDirectory = ''] = process.argv.slice(2);
const server = await startEmbeddedPostgres({ dataDir, sharedDirectory, log: createLogger('warn'), durable: false });
process.on('SIGINT', async () => {
  const client = new pg.Client({ connectionString: server.connectionString });
  await client.connect();
  await client.query('SELECT 1');
  await client.end();
  console.log('answered');
  await server.stop();
  console.log('stopped');
  process.exit(0);
});
setInterval(() => {}, 60_000);
console.log(server.connectionString);
