import { readdir, readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { describe, expect, it } from 'vitest';

const src = join(dirname(import.meta.dirname), 'src');

/** The tables of each domain, and of `platform`. Only the owner writes a table; others call its commands. */
const OWNED: Readonly<Record<string, readonly string[]>> = {
  platform: [
    'event_cursors',
    'event_failures',
    'event_log',
    'events',
    'hub_processes',
    'job_crashes',
    'rate_counts',
    'storage_removals',
  ],
  aliases: ['project_aliases'],
  approvals: [
    'approval_rule_groups',
    'approval_rule_protected_branches',
    'approval_rule_users',
    'approval_rules',
    'approval_settings',
    'code_owner_rules',
    'code_owner_sources',
    'merge_request_approvals',
  ],
  artifacts: ['job_artifacts'],
  ci: [
    'job_needs',
    'job_token_groups',
    'job_token_projects',
    'job_variables',
    'jobs',
    'pipeline_creation_requests',
    'pipeline_variables',
    'pipelines',
    'resource_groups',
    'stages',
  ],
  'ci-variables': ['ci_variables'],
  'custom-attributes': ['custom_attributes'],
  deprecations: ['deprecated_uses'],
  directory: ['ldap_group_links', 'ldap_syncs'],
  emoji: ['award_emoji'],
  environments: ['deployment_merge_requests', 'deployments', 'environments'],
  'error-ingest': ['ingest_counts', 'ingest_envelopes', 'ingest_failures'],
  'error-tracking': [
    'error_client_discards',
    'error_events',
    'error_facets',
    'error_hours',
    'error_keys',
    'error_merges',
    'error_notifications',
    'error_project_hours',
    'error_releases',
    'error_session_hours',
    'error_session_outcomes',
    'error_tracking_client_keys',
    'error_tracking_projects',
    'error_tracking_settings',
    'error_user_reports',
    'error_users',
    'errors',
  ],
  groups: ['namespace_access', 'namespace_shares', 'namespace_sizes', 'namespaces'],
  hooks: ['webhook_attempts', 'webhook_deliveries', 'webhook_payloads', 'webhook_queue', 'webhook_values', 'webhooks'],
  issues: ['issue_assignees', 'issues'],
  labels: ['label_links', 'labels'],
  members: ['access_requests', 'invitations', 'members', 'project_shares'],
  'merge-requests': [
    'merge_request_assignees',
    'merge_request_blocks',
    'merge_request_diff_commits',
    'merge_request_diff_files',
    'merge_request_diffs',
    'merge_request_reviewers',
    'merge_requests',
  ],
  milestones: ['milestones', 'namespace_counters'],
  notes: ['draft_notes', 'notes', 'suggestions'],
  oauth: ['oauth_access_tokens', 'oauth_applications', 'oauth_device_grants', 'oauth_grants', 'oauth_signing_keys'],
  planning: ['resource_events', 'subscriptions', 'timelogs'],
  projects: [
    'inactivity_warnings',
    'project_contributions',
    'project_counters',
    'project_stars',
    'project_statistics',
    'projects',
    'redirects',
    'snippets',
  ],
  'push-rules': ['push_rules'],
  releases: ['release_links', 'release_milestones', 'releases'],
  repositories: [
    'project_fetches',
    'project_languages',
    'protected_branches',
    'protected_tags',
    'protection_levels',
    'pushes',
    'repository_upkeep',
  ],
  runners: ['runner_managers', 'runner_projects', 'runner_registration_tokens', 'runners'],
  saml: ['saml_group_links', 'saml_requests'],
  schedules: ['pipeline_schedule_variables', 'pipeline_schedules'],
  settings: ['application_settings', 'setting_changes'],
  'sign-in': ['recovery_codes', 'sessions'],
  tokens: ['credential_origins', 'personal_access_tokens'],
  topics: ['topic_moves', 'topics'],
  tracking: ['cross_references'],
  traces: ['job_trace_chunks', 'job_traces'],
  transfers: [
    'fork_networks',
    'import_failures',
    'kept_files',
    'project_exports',
    'project_imports',
    'relation_imports',
  ],
  triggers: ['pipeline_triggers'],
  uploads: ['uploads'],
  users: [
    'emails',
    'identities',
    'mail_tokens',
    'scim_identities',
    'sign_ups',
    'terms_versions',
    'user_addresses',
    'user_follows',
    'users',
  ],
};

/** A table name that the code computes. */
const COMPUTED = '(computed)';

/** Files that write tables of another domain, and why they do not call that domain. */
const EXCEPTIONS: readonly { readonly file: string; readonly tables: readonly string[]; readonly why: string }[] = [
  {
    file: 'domains/transfers/relations/insert-rows.ts',
    tables: [COMPUTED],
    why: 'Imports insert rows of many domains in bulk, without events.',
  },
  {
    file: 'domains/milestones/commands.ts',
    tables: [COMPUTED],
    why: 'Promotion points everything that refers to a merged milestone at the milestone of the group.',
  },
  {
    file: 'domains/milestones/moving.ts',
    tables: [COMPUTED, 'release_milestones'],
    why: 'A move points everything that refers to a milestone of a former group at its successor.',
  },
  {
    file: 'domains/transfers/relations/planning.ts',
    tables: ['labels'],
    why: 'Imports set the priorities of imported labels in bulk.',
  },
  ...['copying/finish.ts', 'importing/finish.ts', 'importing/repository.ts'].map((file) => ({
    file: `domains/transfers/${file}`,
    tables: ['projects'],
    why: 'Imports and clones complete the project that they have created. It is not usable before.',
  })),
  {
    file: 'domains/transfers/forks.ts',
    tables: ['projects'],
    why: 'The columns of the fork relation belong to transfers, and are in the row of the project for lists.',
  },
  {
    file: 'domains/transfers/commands.ts',
    tables: ['members'],
    why: 'The importer becomes a member of the new project. Its import emits the events.',
  },
  {
    file: 'domains/users/accounts/ghost.ts',
    tables: ['award_emoji', 'issues', 'projects', COMPUTED],
    why: 'The contributions of a removed account move to the ghost user. Their domains import users.',
  },
  {
    file: 'domains/users/removal.ts',
    tables: ['namespaces'],
    why: 'A user owns a personal namespace. Groups import users.',
  },
  {
    file: 'domains/users/accounts/personal-namespace.ts',
    tables: ['namespaces', 'projects', 'redirects'],
    why: 'A new user name renames the personal namespace, with the paths of its projects. Groups import users.',
  },
  ...['enrolment.ts', 'sign-in.ts', 'two-factor.ts'].map((file) => ({
    file: `domains/sign-in/${file}`,
    tables: ['users'],
    why: 'The columns of sign-ins and second factors belong to sign-in, and are in the row of the user.',
  })),
  {
    file: 'domains/tokens/last-use.ts',
    tables: ['users', COMPUTED],
    why: 'One statement writes when a token or session was last used and when its user was last active.',
  },
  {
    file: 'domains/oauth/ending.ts',
    tables: ['credential_origins'],
    why: 'An authorization ends the credentials that were created through it.',
  },
  {
    file: 'domains/groups/tree.ts',
    tables: ['projects', 'redirects'],
    why: 'A new path of a group changes the paths of all its projects. Projects import groups.',
  },
  {
    file: 'domains/groups/shared-runners.ts',
    tables: ['projects'],
    why: 'A group turns the runners of the instance on or off for all its projects. Projects import groups.',
  },
  {
    file: 'domains/groups/commands.ts',
    tables: ['members'],
    why: 'The creator of a group becomes its owner in the same statement. Members import groups.',
  },
  {
    file: 'domains/directory/commands.ts',
    tables: ['namespaces'],
    why: 'The row of the group shows its first directory link.',
  },
  {
    file: 'domains/projects/protection.ts',
    tables: ['protected_branches', 'protection_levels'],
    why: 'A new project protects its default branch. Repositories import projects.',
  },
  {
    file: 'domains/repositories/first-commit.ts',
    tables: ['project_statistics'],
    why: 'Repositories measure their commits and their size.',
  },
  {
    file: 'domains/repositories/upkeep.ts',
    tables: ['project_statistics', 'projects'],
    why: 'Repositories measure their commits and their size, and find the readme.',
  },
  {
    file: 'domains/repositories/ref-updates.ts',
    tables: ['projects'],
    why: 'A push decides whether the repository is empty, its default branch and its readme.',
  },
  {
    file: 'domains/uploads/commands.ts',
    tables: ['project_statistics'],
    why: 'Uploads count towards the size of the project.',
  },
  {
    file: 'domains/topics/moves.ts',
    tables: ['projects'],
    why: 'A topic that is renamed, merged or deleted changes in the projects that carry it, in batches.',
  },
  {
    file: 'domains/issues/commands.ts',
    tables: ['projects'],
    why: 'The row of the project counts its open issues.',
  },
  {
    file: 'domains/merge-requests/people.ts',
    tables: [COMPUTED],
    why: 'Assignees and reviewers are written alike, in two tables of its own.',
  },
  {
    file: 'domains/notes/commands.ts',
    tables: ['issues', 'merge_requests'],
    why: 'A comment sets `updated_at` of the issue or merge request.',
  },
  {
    file: 'domains/hooks/delivery/call-limit.ts',
    tables: ['rate_counts'],
    why: 'Counts many calls at once, in the transaction that queues the deliveries.',
  },
  ...['locks.ts', 'prune.ts'].map((file) => ({
    file: `platform/job-runner/${file}`,
    tables: ['graphile_worker._private_jobs'],
    why: 'Frees the jobs of dead processes (docs/decisions/0033-private-tables-of-graphile-worker.md).',
  })),
];

const BUILDER = /\.(?:insertInto|updateTable|deleteFrom|mergeInto)\(\s*([^)]*?)\s*\)/g;
const STATEMENT =
  /\b(?:(?:insert\s+into|delete\s+from|merge\s+into|truncate)\s+([\w.]+|\$\{[^}]*\})|update\s+(?:only\s+)?([\w.]+|\$\{[^}]*\})(?:\s+(?:as\s+)?\w+)?\s+set\b)/gi;

const COMMENT = /^\s*(?:\/\*[\s\S]*?\*\/|\/\/.*)\s*$/gm;

/** Returns the tables that the code writes. */
const tablesWrittenBy = (source: string): ReadonlySet<string> => {
  const code = source.replaceAll(COMMENT, '');
  const built = [...code.matchAll(BUILDER)].map(([, name = '']) => /^'([\w.]+)[^']*'$/.exec(name)?.[1] ?? COMPUTED);
  const stated = [...code.matchAll(STATEMENT)].map(([, put, updated]) => put ?? updated ?? '');
  return new Set([...built, ...stated.map((name) => (name.startsWith('$') ? COMPUTED : name))]);
};

const ownerOf = new Map(Object.entries(OWNED).flatMap(([owner, tables]) => tables.map((table) => [table, owner])));

const isAllowed = (file: string, table: string): boolean => {
  const owner = ownerOf.get(table);
  const folder = owner === 'platform' ? 'platform/' : `domains/${owner}/`;
  return (
    file.startsWith(folder) ||
    EXCEPTIONS.some((exception) => exception.file === file && exception.tables.includes(table))
  );
};

describe('tables', async () => {
  const names = await readdir(src, { recursive: true });
  const written = await Promise.all(
    names
      .filter((name) => name.endsWith('.ts'))
      .map(async (file) => ({ file, tables: tablesWrittenBy(await readFile(join(src, file), 'utf8')) })),
  );
  const writes = written.flatMap(({ file, tables }) => [...tables].map((table) => ({ file, table })));
  const declared = await readFile(join(src, 'platform/db/tables.ts'), 'utf8');
  const tables = [...declared.slice(declared.indexOf('export interface DB {')).matchAll(/^ {2}(\w+): /gm)].map(
    ([, table = '']) => table,
  );

  it('have exactly one owner each', () => {
    const views = ['living_credentials', 'transfers'];
    const owned = Object.values(OWNED).flat();
    const unowned = tables.filter((table) => !views.includes(table) && !owned.includes(table));
    expect(unowned, 'Add each table to the domain in OWNED whose commands write it').toEqual([]);
    expect(owned.filter((table) => !tables.includes(table))).toEqual([]);
    expect(owned.filter((table, at) => owned.indexOf(table) !== at)).toEqual([]);
  });

  it('are written only by their owner', () => {
    const foreign = writes
      .filter(({ file, table }) => !isAllowed(file, table))
      .map(({ file, table }) => `src/${file} writes ${table}, which belongs to ${ownerOf.get(table) ?? 'nobody'}`);
    expect(foreign, 'Call a command of the owner, or add an exception with its reason to this file').toEqual([]);
  });

  it('have no exceptions that no code needs', () => {
    const needless = EXCEPTIONS.flatMap(({ file, tables }) => tables.map((table) => ({ file, table }))).filter(
      ({ file, table }) => !writes.some((write) => write.file === file && write.table === table),
    );
    expect(needless).toEqual([]);
  });

  it.each([
    ["tx.db.insertInto('users').values({})", 'users'],
    ["tx.db\n  .updateTable('users as u')", 'users'],
    ["tx.db.deleteFrom('users')", 'users'],
    ['sql`insert into users (id) values (1)`', 'users'],
    ['sql`with a as (select 1)\n  update users u set name = 1`', 'users'],
    ['sql`delete from users where true`', 'users'],
    ['sql`DELETE FROM users`', 'users'],
    // biome-ignore lint/suspicious/noTemplateCurlyInString: the code under test
    ['sql`update ${sql.table(name)} set a = 1`', COMPUTED],
    ['tx.db.deleteFrom(name)', COMPUTED],
  ])('finds what is written by %j', (code, table) => {
    expect([...tablesWrittenBy(code)]).toEqual([table]);
    expect(isAllowed('domains/labels/commands.ts', table)).toBe(false);
  });

  it('distinguishes reading, locking, upserting and comments from writing', () => {
    const code =
      "sql`select 1 from users for no key update` + sql`on conflict do update set a = 1` + db.selectFrom('users')";
    expect([...tablesWrittenBy(code)]).toEqual([]);
  });
});
