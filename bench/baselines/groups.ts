import { createServer } from 'node:http';
import { createPool } from '../../src/platform/db/pool.ts';
import { announce } from './announce.ts';

// The minimum for a list of groups: one named prepared statement and its rows as JSON. No callers, no parameters, no
// total count, and the columns are sent unchanged.
const pool = createPool({ connectionString: process.env.DATABASE_URL ?? '', max: 20, applicationName: 'baseline' });

const statement = {
  name: 'groups',
  text: `
    select n.* from namespaces n where n.kind = 'group' and n.visibility_level >= 20
    order by n.name, n.id limit 20`,
};

const server = createServer((_request, response) => {
  pool.query(statement).then(
    ({ rows }) => {
      const body = Buffer.from(JSON.stringify(rows));
      response.writeHead(200, { 'content-type': 'application/json', 'content-length': body.length }).end(body);
    },
    (error: unknown) => response.writeHead(500).end(String(error)),
  );
});
announce(server);
