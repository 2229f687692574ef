/**
 * Writes all generated files: the Kysely types from a migrated database, the printed GraphQL schema, the OpenAPI
 * document, the typed documents of the product's own GraphQL operations, and the tables of settings in the docs. With
 * --check it writes nothing, and fails when a file is out of date.
 */
import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { codegen } from '@graphql-codegen/core';
import * as typedDocumentNode from '@graphql-codegen/typed-document-node';
import * as typescriptOperations from '@graphql-codegen/typescript-operations';
import { type GraphQLSchema, lexicographicSortSchema, parse, printSchema } from 'graphql';
import { PostgresDialect as CodegenDialect, generate } from 'kysely-codegen';
import { settingInfos } from '#platform/config/config.ts';
import { startEmbeddedPostgres } from '#platform/db/embedded.ts';
import { migrate } from '#platform/db/migrate.ts';
import { createDatabase, createPool } from '#platform/db/pool.ts';
import { createLogger } from '#platform/log.ts';

const TABLES = 'src/platform/db/tables.ts';
const OPERATIONS = 'src/cli/operations';
const main = async (): Promise<void> => {
  const checking = process.argv.includes('--check');
  const files = new Map<string, string>([[TABLES, await tables()]]);
  if (!checking) await writeFile(TABLES, files.get(TABLES) ?? '');
  // Imported late, because these modules do not load while the table types are badly out of date.
  const { schema: unsorted } = await import('#app/schema.ts');
  const schema = lexicographicSortSchema(unsorted);
  const { openApiDocument, v5Removals } = await import('#app/openapi.ts');
  const { settingsTables } = await import('#domains/settings/table.ts');
  files.set('schema/schema.graphql', `${printSchema(schema)}\n`);
  files.set('schema/openapi.json', `${JSON.stringify(openApiDocument(4), null, 2)}\n`);
  files.set('schema/openapi-v5.json', `${JSON.stringify(openApiDocument(5), null, 2)}\n`);
  files.set(`${OPERATIONS}/generated.ts`, await operations(schema));
  const generated = {
    'docs/settings.md': settingsTables(),
    'README.md': processSettings(),
    'docs/version-5.md': v5Removals(),
  };
  for (const [path, text] of Object.entries(generated)) {
    files.set(path, withGenerated(await readFile(path, 'utf8'), text));
  }
  const drifted: string[] = [];
  for (const [path, content] of files) {
    const present = await readFile(path, 'utf8').catch(() => null);
    if (present === content) continue;
    drifted.push(path);
    if (checking) console.error(firstDifference(path, present ?? '', content));
    else await writeFile(path, content);
  }
  if (checking && drifted.length > 0) {
    console.error(`Out of date: ${drifted.join(', ')}. Run: npm run codegen`);
    process.exitCode = 1;
  } else {
    console.log(drifted.length === 0 ? 'All generated files are up to date.' : `Written: ${drifted.join(', ')}`);
  }
};

const tables = async (): Promise<string> => {
  const dataDir = await mkdtemp(join(tmpdir(), 'millrace-codegen-'));
  const postgres = await startEmbeddedPostgres({ dataDir, log: createLogger('silent'), durable: false });
  const pool = createPool({ connectionString: postgres.connectionString, max: 2, applicationName: 'codegen' });
  try {
    await migrate(pool);
    return await generate({
      db: createDatabase(pool),
      dialect: new CodegenDialect({ dateParser: 'string', numericParser: 'number' }),
      defaultSchemas: ['public'],
      typeMapping: { int8: 'number', timestamptz: 'string' },
      outFile: null,
    });
  } finally {
    await pool.end();
    await postgres.destroy();
    await rm(dataDir, { recursive: true, force: true });
  }
};

const operations = async (schema: GraphQLSchema): Promise<string> => {
  const names = (await readdir(OPERATIONS)).filter((name) => name.endsWith('.graphql')).sort();
  const documents = await Promise.all(
    names.map(async (name) => {
      const location = join(OPERATIONS, name);
      return { location, document: parse(await readFile(location, 'utf8')) };
    }),
  );
  const config = {
    enumsAsTypes: true,
    onlyOperationTypes: true,
    useTypeImports: true,
    skipTypename: true,
    documentMode: 'documentNode',
    emitLegacyCommonJSImports: false,
    scalars: { ID: 'string', Time: 'string', Date: 'string', BigInt: 'string', JSON: 'unknown' },
    defaultScalarType: 'string',
  };
  return codegen({
    filename: `${OPERATIONS}/generated.ts`,
    schema: parse(printSchema(schema)),
    documents,
    config,
    plugins: [{ typescriptOperations: {} }, { typedDocumentNode: {} }],
    pluginMap: { typescriptOperations, typedDocumentNode },
  });
};

/** Returns the Markdown table of process settings. It comes from the code that parses the settings. */
const processSettings = (): string => {
  const rows = settingInfos().map(
    ({ variable, flag, description, defaultText }) =>
      `| \`${variable}\` | \`--${flag}\` | ${defaultText} | ${description} |\n`,
  );
  return `| Variable | Flag | Default | What |\n|---|---|---|---|\n${rows.join('')}`;
};

/** Replaces the text between the marks of a page. */
const withGenerated = (page: string, text: string): string =>
  page.replace(
    /(<!-- (\w+) -->\n)[\s\S]*(<!-- \/\2 -->)/,
    (_, start: string, _name, end: string) => start + text + end,
  );

/** Returns the first line that differs, in the style of a diff. */
const firstDifference = (path: string, present: string, wanted: string): string => {
  const before = present.split('\n');
  const after = wanted.split('\n');
  const line = after.findIndex((text, i) => text !== before[i]);
  const at = line < 0 ? after.length : line;
  return `${path}:${at + 1}\n- ${before[at] ?? '(end of file)'}\n+ ${after[at] ?? '(end of file)'}`;
};

await main();
