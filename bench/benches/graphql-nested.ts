import { compare } from '../lib/compare.ts';
import { seed, seedMergeRequests } from '../lib/data.ts';
import { graphqlSide, valuesOf } from '../lib/graphql.ts';
import { openHttp } from '../lib/http.ts';
import type { Outcome } from '../lib/report.ts';
import type { World } from '../lib/world.ts';

const HUB_QUERY = `{ groups(first: 10) { nodes { fullPath projects(first: 10) { nodes { fullPath
  mergeRequests(first: 20) { nodes { iid title state author { username name } } } } } } } }`;
const POSTGRAPHILE_QUERY = `query Nested($parent: BigInt) { allNamespaces(first: 10, condition: { parentId: $parent }) { nodes { fullPath
  projectsByNamespaceId(first: 10) { nodes { fullPath
  mergeRequestsByProjectId(first: 20) { nodes { iid title state userByAuthorId { username name } } } } } } } }`;

/**
 * Five groups with five public projects each and ten merge requests in each project, with their authors: four levels.
 */
export const graphqlNested = async (world: World): Promise<Outcome> => {
  const database = await world.createDatabase();
  const hub = await database.startHub();
  const { token } = await seed(database.pool, { groups: 5, projectsPerGroup: 5, visibility: 'public' });
  await seedMergeRequests(database.pool, 10);
  const postgraphile = await database.startBaseline('postgraphile.js');
  const [toHub, toPostgraphile] = [openHttp(hub.url), openHttp(postgraphile.url)];
  try {
    const onHub = { pid: hub.pid, http: toHub, path: '/api/graphql', query: HUB_QUERY };
    const anonymous = await graphqlSide('hub', onHub);
    const asMember = await graphqlSide('hub as a member', { ...onHub, token });
    const { rows } = await database.pool.query<{ id: number }>(`select id from namespaces where full_path = 'bench'`);
    const baseline = await graphqlSide('PostGraphile', {
      pid: postgraphile.pid,
      http: toPostgraphile,
      path: '/graphql',
      query: POSTGRAPHILE_QUERY,
      // The hub lists the top-level group as well.
      variables: { parent: String(rows[0]?.id) },
    });
    const titles = (data: unknown) => valuesOf(data, 'title').toSorted().join();
    if (valuesOf(baseline.data, 'title').length !== 250) throw new Error('there should be 250 merge requests');
    for (const side of [anonymous, asMember])
      if (titles(side.data) !== titles(baseline.data)) throw new Error('the two servers list different merge requests');
    const against = { baseline, databaseMs: database.cpuMs };
    const outcome = await compare({ ...against, hub: anonymous, atLeast: 1.5 });
    const beside = await compare({ ...against, hub: asMember, atLeast: 1.2, rounds: 4 });
    return {
      target: `${outcome.target}, with a token ${beside.target}`,
      reached: outcome.reached && beside.reached,
      lines: [...outcome.lines, ...beside.lines],
    };
  } finally {
    await Promise.all([toHub.close(), toPostgraphile.close()]);
    await database.close();
  }
};
