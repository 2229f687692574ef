import { compare } from '../lib/compare.ts';
import { seed } from '../lib/data.ts';
import { openHttp } from '../lib/http.ts';
import type { Outcome } from '../lib/report.ts';
import type { World } from '../lib/world.ts';

const HUB_QUERY = `query Flat($n: Int) { projects(first: $n) { nodes { id name fullPath starCount namespace { fullName } } } }`;
const POSTGRAPHILE_QUERY = `query Flat($n: Int) { allProjects(first: $n, orderBy: PRIMARY_KEY_DESC) {
  nodes { id name fullPath starCount namespaceByNamespaceId { fullName } } } }`;

interface Node {
  readonly fullPath: string;
}

/** A page of projects with their namespaces, against PostGraphile, which knows no caller. */
export const graphqlFlat = async (world: World): Promise<Outcome> => {
  const database = await world.createDatabase();
  const hub = await database.startHub();
  const { token } = await seed(database.pool, { groups: 20, projectsPerGroup: 50 });
  const postgraphile = await database.startBaseline('postgraphile.js');
  const [toHub, toPostgraphile] = [openHttp(hub.url), openHttp(postgraphile.url)];
  try {
    const variables = { n: 20 };
    const hubBody = JSON.stringify({ query: HUB_QUERY, variables });
    const otherBody = JSON.stringify({ query: POSTGRAPHILE_QUERY, variables });
    const headers = { 'content-type': 'application/json', authorization: `Bearer ${token}` };
    const plain = { 'content-type': 'application/json' };
    const answer = await toHub.post('/api/graphql', hubBody, headers);
    const other = await toPostgraphile.post('/graphql', otherBody, plain);
    const paths = (nodes: readonly Node[]): string => JSON.stringify(nodes.map(({ fullPath }) => fullPath));
    const mine = JSON.parse(answer.text);
    const theirs = JSON.parse(other.text);
    if (paths(mine.data.projects.nodes) !== paths(theirs.data.allProjects.nodes))
      throw new Error(`different projects: ${answer.text} ${other.text}`);
    return await compare({
      hub: {
        name: 'hub',
        send: () =>
          toHub.drain({
            method: 'POST',
            path: '/api/graphql',
            body: hubBody,
            headers,
            leastBytes: answer.text.length * 0.9,
          }),
        pid: hub.pid,
      },
      baseline: {
        name: 'PostGraphile',
        send: () =>
          toPostgraphile.drain({
            method: 'POST',
            path: '/graphql',
            body: otherBody,
            headers: plain,
            leastBytes: other.text.length * 0.9,
          }),
        pid: postgraphile.pid,
      },
      backends: database.backends,
      atLeast: 1.3,
    });
  } finally {
    await Promise.all([toHub.close(), toPostgraphile.close()]);
    await database.close();
  }
};
