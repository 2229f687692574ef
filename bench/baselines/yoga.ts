import { createServer } from 'node:http';
import SchemaBuilder from '@pothos/core';
import { createYoga } from 'graphql-yoga';
import { createDatabase, createPool } from '../../src/platform/db/pool.ts';
import { announce } from './announce.ts';

// The same libraries with one type: what a server of this kind takes up before it does anything of its own.
interface Project {
  readonly id: number;
  readonly name: string;
}

const db = createDatabase(
  createPool({ connectionString: process.env.DATABASE_URL ?? '', max: 20, applicationName: 'baseline' }),
);
const builder = new SchemaBuilder<object>({});
const ProjectRef = builder.objectRef<Project>('Project').implement({
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
announce(createServer(createYoga({ schema: builder.toSchema(), logging: false })));
