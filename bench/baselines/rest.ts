import { createServer } from 'node:http';
import { createPool } from '../../src/platform/db/pool.ts';
import { announce } from './announce.ts';

// The minimum for the list of projects: one named prepared statement and its rows as JSON. No callers, no permissions,
// no parameters, and the columns are sent unchanged.
const pool = createPool({ connectionString: process.env.DATABASE_URL ?? '', max: 20, applicationName: 'baseline' });

const statement = {
  name: 'projects',
  text: `
    select p.*, n.name as namespace_name, n.path as namespace_path, n.kind as namespace_kind,
      n.full_path as namespace_full_path, n.full_name as namespace_full_name, n.parent_id as namespace_parent_id,
      n.avatar_key as namespace_avatar_key
    from projects p join namespaces n on n.id = p.namespace_id
    order by p.created_at desc, p.id desc limit 20`,
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
