import { createServer } from 'node:http';
import { createPool } from '../../src/platform/db/pool.ts';
import { announce } from './announce.ts';

// The least a server can do for a list of groups: one named prepared statement, its rows as JSON. It knows neither
// callers nor parameters, counts nothing, and sends the columns as they are.
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
