import fc from 'fast-check';
import { beforeAll, describe, expect, it } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import { useApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { insertMergeRequest } from './support.ts';

// Lists of plain fields pass from the database to the response as JSON text. graphql's own executor, which runs documents
// with directives, reads rows and must give the same answers.

const app = useApp();
const db = () => app().hub.services.db;
let scene: Awaited<ReturnType<typeof makeScene>>;

const AWKWARD = [
  '"',
  '\\',
  '\n\t\r',
  '\u0001author:1\u0001',
  '\u001f',
  '\u007f',
  '\u2028',
  '</script>',
  '😀',
  'ü',
  ' ',
  "'",
];

beforeAll(async () => {
  scene = await makeScene(app());
  const { people, project } = scene;
  const texts = fc.sample(fc.string({ unit: 'binary', minLength: 1, maxLength: 30 }), 20);
  const titles = [...AWKWARD, ...texts.map((text) => text.replaceAll('\0', ''))];
  const authors = [people.owner.id, people.reporter.id, people.guest.id, null];
  for (const [i, title] of titles.entries())
    await insertMergeRequest(db(), {
      project_id: project.id,
      title: title || 'x',
      description: i % 3 === 0 ? null : title,
      source_branch: `topic-${title}`.slice(0, 200),
      author_id: authors[i % authors.length] ?? null,
      state: (['opened', 'closed', 'merged', 'locked'] as const)[i % 4] ?? 'opened',
      draft: i % 5 === 0,
    });
});

const ask = async (client: Client, fields: string, args = ''): Promise<string> => {
  const query = `query ($path: ID!, $yes: Boolean = true) { project(fullPath: $path) { name
    mergeRequests${args} ${fields} } } ${fields.includes('...Plain') ? 'fragment Plain on MergeRequest { title state }' : ''}`;
  const variables = { path: scene.project.path_with_namespace };
  const sent = fields.includes('$yes') ? query : query.replace(', $yes: Boolean = true', '');
  return (await client.fetch('POST', '/api/graphql', { query: sent, variables })).text();
};

const ALL = 'iid title description state draft sourceBranch targetBranch projectId targetProjectId';

describe('a list of plain fields', () => {
  it.each([
    ['all of them', `{ nodes { ${ALL} author { username name id active locked publicEmail } } }`, ''],
    ['a part of the page', '{ nodes { title } }', '(first: 3)'],
    ['nothing', '{ nodes { title } }', '(first: 0)'],
    ['the end of the list', '{ nodes { title iid } }', '(last: 3)'],
    ['another order', '{ nodes { iid title } }', '(sort: TITLE_ASC)'],
    ['a filter', '{ nodes { iid state author { name } } }', '(state: merged, search: "topic")'],
    ['other names', '{ rows: nodes { number: iid title author { login: username } } }', ''],
    ['another name for the rows', '{ rows: nodes { iid author { login: username __typename } } }', ''],
    ['fragments', '{ nodes { iid ...Plain ... on MergeRequest { draft } } }', ''],
    ['a type name', '{ nodes { __typename iid } }', ''],
    ['rows twice', '{ nodes { iid } again: nodes { title } }', '(first: 2)'],
    ['a count', '{ count nodes { iid } }', ''],
    ['edges', '{ edges { node { iid } } }', '(first: 2)'],
  ])('is answered as text as it is from rows: %s', async (_name, fields, args) => {
    const text = await ask(scene.owner, fields, args);
    const directive = fields.replace('{', '{ pageInfo @skip(if: $yes) { endCursor } ');
    expect(text).toBe(await ask(scene.owner, directive, args));
    expect(JSON.parse(text).errors).toBeUndefined();
  });

  it('continues after a cursor', async () => {
    const page = JSON.parse(await ask(scene.owner, '{ nodes { iid } pageInfo { endCursor } }', '(first: 4)'));
    const { nodes, pageInfo } = page.data.project.mergeRequests;
    const next = JSON.parse(await ask(scene.owner, '{ nodes { iid } }', `(first: 2, after: "${pageInfo.endCursor}")`));
    const last = Number(nodes.at(-1).iid);
    expect(next.data.project.mergeRequests.nodes).toEqual([{ iid: String(last - 1) }, { iid: String(last - 2) }]);
    const wrong = JSON.parse(await ask(scene.owner, '{ nodes { iid } }', '(after: "x")'));
    expect(wrong.errors).toHaveLength(1);
  });

  it('is the same in a batch and over GET', async () => {
    const query = `{ project(fullPath: "${scene.project.path_with_namespace}") { mergeRequests { nodes { title author { name } } } } }`;
    const { data } = await scene.owner.graphql(query);
    expect(data.project.mergeRequests.nodes.length).toBe(AWKWARD.length + 20);
    expect((await scene.owner.post('/api/graphql', [{ query }])).body).toEqual([{ data }]);
    expect((await scene.owner.get(`/api/graphql?query=${encodeURIComponent(query)}`)).body).toEqual({ data });
  });

  it('is empty without rows, and absent for callers who may not see merge requests', async () => {
    const { people, group } = scene;
    const empty = await app().make.project({ namespace_id: group.id, visibility: 'public' }, people.owner);
    const closed = await app().make.project(
      { namespace_id: group.id, visibility: 'public', merge_requests_access_level: 'private' },
      people.owner,
    );
    await insertMergeRequest(db(), { project_id: closed.id });
    const query = `{ group(fullPath: "${group.full_path}") { projects(first: 5, sort: ID_ASC) { nodes { name mergeRequests { nodes { iid } } } } } }`;
    const seenBy = async (client: Client) => (await client.graphql(query)).data.group.projects.nodes;
    const none = { name: empty.name, mergeRequests: { nodes: [] } };
    expect(await seenBy(scene.stranger)).toEqual([none, { name: closed.name, mergeRequests: null }]);
    expect((await seenBy(scene.owner)).slice(1)).toEqual([
      none,
      { name: closed.name, mergeRequests: { nodes: [{ iid: '1' }] } },
    ]);
  });
});
