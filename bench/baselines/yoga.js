import { createServer } from 'node:http';
import SchemaBuilder from '@pothos/core';
import { createYoga } from 'graphql-yoga';
import { Kysely, PostgresDialect } from 'kysely';
import pg from 'pg';

// The same libraries with one type: the memory of such a server before it does any work of its own. Plain JavaScript,
// because the compiler that strips types would count too.
const pool = new pg.Pool({ connectionString: process.env.DATABASE_URL, max: 20 });
const db = new Kysely({ dialect: new PostgresDialect({ pool }) });
const builder = new SchemaBuilder({});
const ProjectRef = builder.objectRef('Project').implement({
  fields: (t) => ({ id: t.exposeID('id'), name: t.exposeString('name') }),
});
builder.queryType({
  fields: (t) => ({
    projects: t.field({
      type: [ProjectRef],
      resolve: () => db.selectFrom('projects').select(['id', 'name']).orderBy('id', 'desc').limit(20).execute(),
    }),
  }),
});
const server = createServer(createYoga({ schema: builder.toSchema(), logging: false }));
server.listen(0, '127.0.0.1', () => console.log(`ready http://127.0.0.1:${server.address().port}`));
process.once('SIGTERM', () => process.exit(0));
