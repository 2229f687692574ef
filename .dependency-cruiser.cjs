/**
 * The import rules: see docs/architecture.md. `npm run check:imports` applies them, and test/architecture.test.ts
 * plants violations.
 */
const CORE = '^src/domains/[^/]+/(model|policy|queries|commands|events|webhook|jobs|[a-z-]+)\\.ts$';
const FACES = '(^|/)(rest|graphql|record|pages|endpoints|git-http)\\.ts$';

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
      name: 'platform-stands-alone',
      severity: 'error',
      from: { path: '^src/platform' },
      to: { path: '^src/(app|rest|graphql|pages|domains|cli)' },
    },
    {
      name: 'kits-know-no-domain',
      severity: 'error',
      from: { path: '^src/(rest|graphql|pages)/' },
      to: { path: '^src/(app|domains|cli)' },
    },
    {
      name: 'core-knows-no-face',
      comment: 'Domain logic does not depend on its interfaces.',
      severity: 'error',
      from: { path: CORE, pathNot: FACES },
      to: {
        path: [
          '^src/(rest|graphql|pages|app|cli)/',
          '^src/domains/[^/]+/(rest|graphql|record|pages|endpoints|git-http)\\.ts$',
          'node_modules/(fastify|@fastify|graphql|graphql-yoga|@pothos)/',
        ],
      },
    },
    {
      name: 'faces-speak-no-sql',
      severity: 'error',
      from: { path: '^src/domains/[^/]+/(rest|graphql|record|pages|endpoints|git-http)\\.ts$' },
      to: { path: 'node_modules/(kysely|pg)/' },
    },
    {
      name: 'rest-and-graphql-never-meet',
      severity: 'error',
      from: { path: '^src/domains/[^/]+/graphql\\.ts$' },
      to: { path: ['^src/rest/', '^src/domains/[^/]+/(rest|record)\\.ts$'] },
    },
    {
      name: 'graphql-and-rest-never-meet',
      severity: 'error',
      from: { path: '^src/domains/[^/]+/(rest|record)\\.ts$' },
      to: { path: ['^src/graphql/', '^src/domains/[^/]+/graphql\\.ts$'] },
    },
    {
      name: 'front-doors',
      comment: 'A domain does not import from subfolders of another domain.',
      severity: 'error',
      from: { path: '^src/domains/([^/]+)/' },
      to: { path: '^src/domains/[^/]+/[^/]+/', pathNot: '^src/domains/$1/' },
    },
    {
      name: 'nobody-imports-app',
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
