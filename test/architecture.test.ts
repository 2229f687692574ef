import { existsSync } from 'node:fs';
import { cp, mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, join, relative } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { cruise } from './support/cruise.ts';

const root = dirname(import.meta.dirname);
describe('the import rules', () => {
  describe('catch a planted violation', () => {
    let directory = '';
    const files: Readonly<Record<string, string>> = {
      'src/platform/planted.ts': "import '#domains/a/queries.ts';\n",
      'src/platform/db/planted.ts': "import '#domains/a/queries.ts';\n",
      'src/rest/planted.ts': "import '#domains/a/queries.ts';\n",
      'src/graphql/parts/planted.ts': "import '#domains/a/queries.ts';\n",
      'src/domains/a/queries.ts': "import './rest.ts';\nimport 'fastify';\n",
      'src/domains/a/queries/lists.ts': "import '../pages/form.ts';\n",
      'src/domains/a/delivery/record.ts': "import '#rest/route.ts';\nimport 'kysely';\n",
      'src/domains/a/rest.ts': "import 'kysely';\nimport './graphql.ts';\n",
      'src/domains/a/rest/lists.ts': "import 'kysely';\nimport '../graphql/lists.ts';\n",
      'src/domains/a/graphql.ts': "import './record.ts';\nimport '#domains/b/inner/secret.ts';\n",
      'src/domains/a/graphql/lists.ts':
        "import 'pg';\nimport '#rest/route.ts';\nimport '#domains/b/inner/secret.ts';\n",
      'src/domains/a/pages/form.ts': "import 'kysely';\nimport './nothing-here.ts';\n",
      'src/domains/a/endpoints/token.ts': "import 'kysely';\nimport '#app/list.ts';\n",
      'src/domains/a/record.ts': 'export const record = 1;\n',
      'src/domains/a/commands.ts': "import '#domains/b/commands.ts';\n",
      'src/domains/b/commands.ts': "import '#domains/a/model.ts';\nimport '#app/list.ts';\n",
      'src/domains/b/inner/secret.ts': "import './circle.ts';\n",
      'src/domains/b/inner/circle.ts': "import './secret.ts';\n",
      'src/domains/a/model.ts': "import './nothing-here.ts';\n",
      'src/rest/route.ts': 'export const route = 1;\n',
      'src/app/list.ts': 'export const list = 1;\n',
    };
    let found: string[] = [];

    // `npm run check:imports` reads the repository itself. With a TypeScript version that the checker does not support, it
    // would read nothing and pass, but find nothing here either.
    beforeAll(async () => {
      directory = await mkdtemp(join(tmpdir(), 'millrace-planted-'));
      for (const [path, text] of Object.entries(files)) {
        await mkdir(dirname(join(directory, path)), { recursive: true });
        await writeFile(join(directory, path), text);
      }
      for (const name of ['package.json', 'tsconfig.json', '.dependency-cruiser.cjs']) {
        await cp(join(root, name), join(directory, name));
      }
      await symlink(join(root, 'node_modules'), join(directory, 'node_modules'));
      found = (await cruise(directory)).violations.map(({ rule, from }) => `${rule.name}: ${from}`);
    });
    afterAll(() => rm(directory, { recursive: true, force: true }));

    test.each([
      'platform-imports-only-platform: src/platform/planted.ts',
      'platform-imports-only-platform: src/platform/db/planted.ts',
      'kits-import-no-domain: src/rest/planted.ts',
      'kits-import-no-domain: src/graphql/parts/planted.ts',
      'core-imports-no-interface: src/domains/a/queries.ts',
      'core-imports-no-interface: src/domains/a/queries/lists.ts',
      'core-imports-no-interface: src/domains/a/delivery/record.ts',
      'interfaces-contain-no-sql: src/domains/a/rest.ts',
      'interfaces-contain-no-sql: src/domains/a/rest/lists.ts',
      'interfaces-contain-no-sql: src/domains/a/graphql/lists.ts',
      'interfaces-contain-no-sql: src/domains/a/pages/form.ts',
      'interfaces-contain-no-sql: src/domains/a/endpoints/token.ts',
      'rest-imports-no-graphql: src/domains/a/rest.ts',
      'rest-imports-no-graphql: src/domains/a/rest/lists.ts',
      'graphql-imports-no-rest: src/domains/a/graphql.ts',
      'graphql-imports-no-rest: src/domains/a/graphql/lists.ts',
      'no-subfolders-of-other-domains: src/domains/a/graphql.ts',
      'no-subfolders-of-other-domains: src/domains/a/graphql/lists.ts',
      'no-cycles: src/domains/b/inner/circle.ts',
      'no-cycles-between-domains: src/domains/a',
      'only-entry-points-import-app: src/domains/b/commands.ts',
      'only-entry-points-import-app: src/domains/a/endpoints/token.ts',
      'resolvable: src/domains/a/model.ts',
      'resolvable: src/domains/a/pages/form.ts',
    ])('%s', (violation) => {
      expect(found).toContain(violation);
    });

    test('a file named record.ts in the core of a domain may import the database library', () => {
      expect(found).not.toContain('interfaces-contain-no-sql: src/domains/a/delivery/record.ts');
    });
  });
});

test('the diagram in docs/architecture.md allows every import between domains', async () => {
  const page = await readFile(join(root, 'docs/architecture.md'), 'utf8');
  const allowed = new Map<string, Set<string>>();
  for (const [, from = '', to = ''] of page.split('flowchart RL')[1]?.matchAll(/^ {2}(.+) --> (.+)$/gm) ?? []) {
    for (const domain of from.split(' & ')) {
      allowed.set(domain, new Set([...(allowed.get(domain) ?? []), ...to.split(' & ')]));
    }
  }
  const mayImport = (from: string, to: string): boolean =>
    [...(allowed.get(from) ?? [])].some((next) => next === to || mayImport(next, to));
  const surplus = new Set<string>();
  for (const entry of await readdir(join(root, 'src/domains'), { recursive: true, withFileTypes: true })) {
    if (!entry.name.endsWith('.ts')) continue;
    const path = join(entry.parentPath, entry.name);
    const [from = ''] = relative(join(root, 'src/domains'), path).split('/');
    for (const [, to = ''] of (await readFile(path, 'utf8')).matchAll(/'#domains\/([^/]+)\//g)) {
      if (to !== from && !mayImport(from, to)) surplus.add(`${from} --> ${to}`);
    }
  }
  expect([...surplus]).toEqual([]);
});

test('faces leave the decision who may do what to the domain', async () => {
  const domains = join(root, 'src/domains');
  const decisions: string[] = [];
  for (const entry of await readdir(domains, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath, entry.name);
    const isFace = /^[^/]+\/(rest|record|graphql|pages)(\.ts$|\/)/.test(relative(domains, path));
    if (!isFace || !entry.name.endsWith('.ts')) continue;
    for (const [, names = '', from = ''] of (await readFile(path, 'utf8')).matchAll(
      /^import \{([^}]+)\} from '(.+)'/gm,
    )) {
      // `requireUser` returns the id of the caller.
      const decides = from.endsWith('/policy.ts')
        ? /\brequire(?!User\b)[A-Z]\w*/
        : from === '#platform/errors.ts'
          ? /\b(forbidden|unauthenticated|insufficientScope)\b/
          : null;
      const [name] = (decides && names.match(decides)) ?? [];
      if (name) decisions.push(`${relative(domains, path)}: ${name}`);
    }
  }
  expect(decisions).toEqual([]);
});

test('no transaction is copied to change its actor, because its events would name the first actor', async () => {
  const copies: string[] = [];
  for (const entry of await readdir(join(root, 'src'), { recursive: true, withFileTypes: true })) {
    if (!entry.name.endsWith('.ts')) continue;
    const path = join(entry.parentPath, entry.name);
    for (const line of (await readFile(path, 'utf8')).split('\n'))
      if (/\{ \.\.\.(tx|\w+Tx), actor\b/.test(line) && !/^ *(\*|\/\/)/.test(line))
        copies.push(`${path}: ${line.trim()}`);
  }
  expect(copies).toEqual([]);
});

/** The routes of these folders are defined in the domains they belong to. */
const MAKERS_OF_ROUTES: ReadonlySet<string> = new Set(['custom-attributes']);

describe('the lists of the app name every domain that has an entry for them', async () => {
  const domains = await readdir(join(root, 'src/domains'));
  test.each([
    ['rest', 'routes.ts'],
    ['graphql', 'schema.ts'],
    ['pages', 'pages.ts'],
    ['jobs', 'jobs.ts'],
    ['events', 'events.ts'],
  ])('%s in app/%s', async (entry, list) => {
    const text = await readFile(join(root, 'src/app', list), 'utf8');
    const missing = domains
      .filter((domain) => [`${entry}.ts`, entry].some((name) => existsSync(join(root, 'src/domains', domain, name))))
      .filter((domain) => !(entry === 'rest' && MAKERS_OF_ROUTES.has(domain)))
      .filter((domain) => ![`/${entry}.ts'`, `/${entry}/`].some((path) => text.includes(`#domains/${domain}${path}`)));
    expect(missing).toEqual([]);
  });
});

/**
 * The files that may name the tables from which roles follow, each with what it does to them. All others ask
 * access/roles.ts and access/policy.ts who holds which role (docs/decisions/0002-effective-access.md).
 */
const TABLES_OF_ROLES: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  namespace_access: { 'access/roles.ts': 'the rule' },
  members: {
    'access/roles.ts': 'the rule',
    'directory/jobs.ts': 'finds groups that have members from LDAP',
    'directory/run.ts': 'compares memberships with the directory',
    'groups/commands.ts': 'makes the creator a member',
    'groups/summaries.ts': 'counts members',
    'members/commands.ts': 'changes memberships',
    'members/copying.ts': 'copies memberships',
    'members/expiry.ts': 'removes expired memberships',
    'members/joining.ts': 'adds memberships',
    'members/memberships.ts': 'lists memberships',
    'members/queries.ts': 'lists memberships',
    'members/synced.ts': 'syncs memberships',
    'saml/group-roles.ts': 'compares memberships with the assertion',
    'transfers/commands.ts': 'makes the importer a member',
    'transfers/relations/members.ts': 'exports and imports memberships',
    'users/queries.ts': 'finds users without memberships of projects',
  },
  namespace_shares: {
    'access/roles.ts': 'the rule',
    'groups/deletion.ts': 'ends shares with a removed group',
    'groups/shares.ts': 'changes and lists shares',
    'members/expiry.ts': 'removes expired shares',
    'members/queries.ts': 'lists memberships of invited groups',
  },
  project_shares: {
    'access/roles.ts': 'the rule',
    'members/expiry.ts': 'removes expired shares',
    'members/queries.ts': 'lists memberships of invited groups',
    'members/shares.ts': 'changes shares',
    'projects/lists/select.ts': 'lists shares',
  },
};

describe('the tables from which roles follow', async () => {
  const domains = join(root, 'src/domains');
  const texts = new Map<string, string>();
  for (const entry of await readdir(domains, { recursive: true, withFileTypes: true })) {
    if (!entry.name.endsWith('.ts')) continue;
    const path = join(entry.parentPath, entry.name);
    texts.set(relative(domains, path), await readFile(path, 'utf8'));
  }

  test.each(Object.entries(TABLES_OF_ROLES))('%s is named only where the list says', (table, files) => {
    // In SQL, and as the argument of a function that takes a table's name: of Kysely, or of a copy.
    const named = new RegExp(
      `\\b(from|join|into|update|using)\\s+${table}\\b(?! from|')|(\\w*(From|Into|Table|Join)|using|table|insert)\\(\\s*'${table}\\b`,
    );
    const found = [...texts].filter(([, text]) => named.test(text.replaceAll(/^\s*(\/?\*|\/\/).*$/gm, '')));
    expect(found.map(([path]) => path).toSorted()).toEqual(Object.keys(files).toSorted());
  });
});
