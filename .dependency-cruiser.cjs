/**
 * The import rules: see docs/architecture.md. `npm run check:imports` applies them, and test/architecture.test.ts
 * plants violations.
 */
const DOMAIN = '^src/domains/[^/]+/';
const REST = `${DOMAIN}((rest|record)\\.ts$|rest/)`;
const GRAPHQL = `${DOMAIN}graphql(\\.ts$|/)`;
/** The interfaces of a domain. Everything else in its folder and subfolders is its core. */
const FACES = [REST, GRAPHQL, `${DOMAIN}(pages|endpoints|git-http)(\\.ts$|/)`];

module.exports = {
  forbidden: [
    {
      name: 'no-cycles',
      comment: 'Imports between modules have no cycles. Only type imports may refer back.',
      severity: 'error',
      from: {},
      to: { circular: true, viaOnly: { dependencyTypesNot: ['type-only'] } },
    },
    {
      name: 'no-cycles-between-domains',
      comment: 'Imports between domains have no cycles, type imports included.',
      severity: 'error',
      scope: 'folder',
      from: { path: '^src/domains/[^/]+$' },
      to: { circular: true, path: '^src/domains/[^/]+$' },
    },
    {
      name: 'platform-imports-only-platform',
      severity: 'error',
      from: { path: '^src/platform' },
      to: { path: '^src/(app|rest|graphql|pages|domains|cli)' },
    },
    {
      name: 'kits-import-no-domain',
      severity: 'error',
      from: { path: '^src/(rest|graphql|pages)/' },
      to: { path: '^src/(app|domains|cli)' },
    },
    {
      name: 'core-imports-no-interface',
      comment: 'Domain logic does not depend on its interfaces.',
      severity: 'error',
      from: { path: DOMAIN, pathNot: FACES },
      to: {
        path: [
          '^src/(rest|graphql|pages|app|cli)/',
          ...FACES,
          'node_modules/(fastify|@fastify|graphql|graphql-yoga|@pothos)/',
        ],
      },
    },
    {
      name: 'interfaces-contain-no-sql',
      comment: 'Interfaces call queries and commands. Only these import the database library.',
      severity: 'error',
      from: { path: FACES },
      to: { path: 'node_modules/(kysely|pg)/' },
    },
    {
      name: 'graphql-imports-no-rest',
      severity: 'error',
      from: { path: GRAPHQL },
      to: { path: ['^src/rest/', REST] },
    },
    {
      name: 'rest-imports-no-graphql',
      severity: 'error',
      from: { path: REST },
      to: { path: ['^src/graphql/', GRAPHQL] },
    },
    {
      name: 'no-subfolders-of-other-domains',
      comment: 'A domain does not import from subfolders of another domain.',
      severity: 'error',
      from: { path: '^src/domains/([^/]+)/' },
      to: { path: '^src/domains/[^/]+/[^/]+/', pathNot: '^src/domains/$1/' },
    },
    {
      name: 'only-entry-points-import-app',
      severity: 'error',
      from: { path: '^src/', pathNot: '^src/(app/|main\\.ts|cli/)' },
      to: { path: '^src/app/' },
    },
    {
      name: 'resolvable',
      comment: 'The exception is a package that contains only types.',
      severity: 'error',
      from: {},
      to: { couldNotResolve: true, pathNot: '^@graphql-typed-document-node/core$' },
    },
  ],
  options: {
    doNotFollow: { path: 'node_modules' },
    tsConfig: { fileName: 'tsconfig.json' },
    tsPreCompilationDeps: true,
    enhancedResolveOptions: { exportsFields: ['exports'], conditionNames: ['import', 'node', 'default'] },
  },
};
