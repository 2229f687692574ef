import { readFileSync } from 'node:fs';
import {
  buildSchema,
  type GraphQLField,
  type GraphQLObjectType,
  type GraphQLOutputType,
  getNamedType,
  isCompositeType,
  isObjectType,
  isRequiredArgument,
} from 'graphql';
import { beforeAll, describe, expect, it } from 'vitest';
import { mapLimit } from '#platform/concurrency/map-limit.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { statementsOf } from '../support/statements.ts';

// The number of statements for a page of projects must not grow with the page. The tests select every field of the
// types below for 2 and for 12 projects, each in its own group.

const app = useApp({ sweep: true });
const FEW = 2;
const MANY = 12;
/** Fewer than the 10 more that one statement for each project would need. */
const SLACK = 5;
const ATTEMPTS = 6;
/** The statements that the hub runs by itself meanwhile. */
const OWN_STATEMENTS_PER_SECOND = 10;

/**
 * Fields that need statements for each project: they look up one record by its number, name or id, read two repositories,
 * or are settings that are looked at one project at a time.
 */
const ONE_BY_ONE: ReadonlySet<string> = new Set([
  'Project.ciPipelineCreationRequest',
  'Project.forkDetails',
  'Project.job',
  'Project.mergeRequest',
  'Project.release',
  'Group.ldapGroupLinks',
  'Group.ldapSync',
  'Group.samlGroupLinks',
]);

/** Fields of nested types that read the repository or stored files for each row. */
const NESTED_ONE_BY_ONE: ReadonlySet<string> = new Set([
  'MergeRequest.commitsWithoutMergeCommits',
  'MergeRequest.defaultMergeCommitMessage',
  'MergeRequest.defaultSquashCommitMessage',
  'Pipeline.testSuite',
]);

const schema = buildSchema(readFileSync(new URL('../../schema/schema.graphql', import.meta.url), 'utf8'));
type Field = GraphQLField<unknown, unknown>;

const typeNamed = (name: string): GraphQLObjectType => {
  const type = schema.getType(name);
  if (!isObjectType(type)) throw new Error(`${name} is no object type`);
  return type;
};

/** Values of required arguments, and of others by their field. They refer to existing records where that is simple. */
const ARGUMENTS: Readonly<Record<string, string>> = {
  iid: '"1"',
  id: '"gid://gitlab/Ci::Build/1"',
  // One of id and name is required.
  'job.name': '"test"',
  'error.id': '"gid://gitlab/ErrorTracking::Error/1"',
  'detailedError.id': '"gid://gitlab/ErrorTracking::Error/1"',
  'errorStackTrace.id': '"gid://gitlab/ErrorTracking::Error/1"',
  'sentryDetailedError.id': '"gid://gitlab/ErrorTracking::Error/1"',
  requestId: '"1"',
  userId: '"gid://gitlab/User/1"',
  title: '"bug"',
  tagName: '"v1"',
  name: '"main"',
  ref: '"main"',
  paths: '["README.md"]',
  searchPattern: '"*"',
  kind: 'MERGE_REQUEST',
  offset: '0',
  limit: '5',
};

/** Types that lead to other projects and groups. Their own fields are selected only on the projects of the page. */
const ELSEWHERE = /^(?:Project|Group|Namespace|Repository)$/;

const argumentValue = (field: Field, argument: string): string => {
  const value = ARGUMENTS[`${field.name}.${argument}`] ?? ARGUMENTS[argument];
  if (value === undefined) throw new Error(`add a value for ${field.name}(${argument}:) to ARGUMENTS`);
  return value;
};

const argumentsOf = (field: Field, isPaged: boolean): string => {
  const required = field.args
    .filter((argument) => isRequiredArgument(argument) || `${field.name}.${argument.name}` in ARGUMENTS)
    .map(({ name }) => `${name}: ${argumentValue(field, name)}`);
  const all = [...required, ...(isPaged ? ['first: 2'] : [])];
  return all.length === 0 ? '' : `(${all.join(', ')})`;
};

const isConnection = (type: GraphQLOutputType): boolean => {
  const named = getNamedType(type);
  return isObjectType(named) && named.getFields().pageInfo !== undefined;
};

/** Returns the selection of the field with its leaf fields, and with nested ones down to `depth`. */
const selected = (field: Field, depth: number): string | null => {
  const type = getNamedType(field.type);
  const paged = isConnection(field.type);
  const head = `${field.name}${argumentsOf(field, paged)}`;
  if (!isCompositeType(type)) return head;
  if (paged && isObjectType(type)) {
    const nodes = type.getFields().nodes;
    const below = nodes && selected(nodes, depth);
    return below ? `${head} { ${type.getFields().count ? 'count ' : ''}${below} }` : null;
  }
  if (!('getFields' in type)) return null;
  const below = Object.values(type.getFields()).flatMap((each) => {
    const named = getNamedType(each.type);
    if (NESTED_ONE_BY_ONE.has(`${type.name}.${each.name}`)) return [];
    if (isCompositeType(named) && (depth === 0 || ELSEWHERE.test(type.name))) return [];
    return selected(each, depth - 1) ?? [];
  });
  return below.length === 0 ? null : `${head} { ${below.join(' ')} }`;
};

describe('a page of many projects takes no more statements than a page of two', () => {
  let owner: TestUser;
  let path: string;

  beforeAll(async () => {
    const { make, as, root } = app();
    owner = await make.user();
    const client = as(owner);
    const group = await make.group({ visibility: 'public' }, owner);
    path = group.full_path;
    const template = await make.project({ visibility: 'public', initialize_with_readme: true }, owner);
    const places = await mapLimit([...Array(MANY).keys()], 4, () =>
      make.group({ parent_id: group.id, visibility: 'public' }, owner),
    );
    await mapLimit(places, 4, async (place) => {
      const { body: project } = await client.post(`/projects/${template.id}/fork`, { namespace_id: place.id });
      const at = `/projects/${project.id}`;
      const developer = await make.user();
      const others = [await make.user(), await make.user()];
      await make.projectMember(project, developer, 30);
      const [first, second] = others;
      if (first) await as(first).post(`${at}/access_requests`);
      if (second) await client.post(`${at}/invitations`, { user_id: second.id, access_level: 30 });
      await client.post(`${at}/labels`, { name: 'bug', color: '#ff0000' });
      const { body: milestone } = await client.post(`${at}/milestones`, { title: 'M' });
      for (const title of ['One', 'Two']) {
        const { body: issue } = await client.post(`${at}/issues`, {
          title,
          labels: 'bug',
          milestone_id: milestone.id,
          assignee_ids: [developer.id],
        });
        await client.post(`${at}/issues/${issue.iid}/notes`, { body: 'Note' });
      }
      await client.post(`${at}/hooks`, { url: 'http://127.0.0.1:9/', push_events: false });
      await client.post(`${at}/protected_tags`, { name: 'v*' });
      await as(root).put(`${at}/custom_attributes/key`, { value: 'value' });
    });
    await app().settle();
    const { body: projects } = await client.get(`/groups/${group.id}/projects?include_subgroups=true&per_page=100`);
    await mapLimit(projects, 4, async ({ id }: { id: number }) => {
      const at = `/projects/${id}`;
      await client.post(`${at}/job_token_scope/allowlist`, { target_project_id: template.id });
      await client.post(`${at}/job_token_scope/groups_allowlist`, { target_group_id: group.id });
      await client.post(`${at}/protected_branches`, { name: 'x', allowed_to_push: [{ user_id: owner.id }] });
      const { body: branch } = await client.post(`${at}/repository/branches`, { branch: 'topic', ref: 'main' });
      await client.post(`${at}/statuses/${branch.commit.id}`, { state: 'success', name: 'build' });
      await client.post(`${at}/repository/tags`, { tag_name: 'v1', ref: 'main' });
      await client.post(`${at}/releases`, { tag_name: 'v1' });
      await client.post(`${at}/merge_requests`, { source_branch: 'topic', target_branch: 'main', title: 'MR' });
    });
    await app().settle();
  });

  const statements = async (user: TestUser, first: number, selection: string): Promise<number> => {
    const text = `query ($path: ID!) { group(fullPath: $path) {
      projects(first: ${first}, includeSubgroups: true) { nodes { id ${selection} } } } }`;
    const { count, result } = await statementsOf(app(), () => app().as(user).graphql(text, { path }));
    const { data, errors } = result;
    expect(errors, text).toBeUndefined();
    expect(data.group.projects.nodes).toHaveLength(first);
    return count;
  };

  /** Returns the fields that take more statements with more projects. */
  const growing = async (user: TestUser, type: GraphQLObjectType, below: string) => {
    const fields = Object.values(type.getFields());
    const isLeaf = (field: Field) => !isCompositeType(getNamedType(field.type));
    const leaves = fields.filter(isLeaf).map((field) => selected(field, 0));
    const selections = new Map([
      ['all that have no fields of their own', leaves.join(' ')],
      ...fields.filter((field) => !isLeaf(field)).map((field) => [field.name, selected(field, 1)] as const),
    ]);
    const found: Record<string, string> = {};
    for (const [name, selection] of selections) {
      if (selection === null || ONE_BY_ONE.has(`${type.name}.${name}`)) continue;
      const whole = below === '' ? selection : `${below} { ${selection} }`;
      const few = await statements(user, FEW, whole);
      // On a busy machine a long query yields, which splits its batches. One N+1 shows in every attempt.
      for (let attempt = 1; attempt <= ATTEMPTS; attempt += 1) {
        const begun = performance.now();
        const many = await statements(user, MANY, whole);
        const own = ((performance.now() - begun) / 1_000) * OWN_STATEMENTS_PER_SECOND;
        if (many <= few + SLACK + own) break;
        if (attempt === ATTEMPTS) found[name] = `${few} for ${FEW}, ${many} for ${MANY}`;
      }
    }
    return found;
  };

  it.each([
    ['Project', ''],
    ['Group', 'group'],
    ['Namespace', 'namespace'],
    ['Repository', 'repository'],
  ])('for every field of %s', async (name, below) => {
    expect(await growing(owner, typeNamed(name), below)).toEqual({});
  });
});
