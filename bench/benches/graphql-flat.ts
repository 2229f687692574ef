import { compare } from '../lib/compare.ts';
import { seed } from '../lib/data.ts';
import { graphqlSide, valuesOf } from '../lib/graphql.ts';
import { openHttp } from '../lib/http.ts';
import type { Outcome } from '../lib/report.ts';
import type { World } from '../lib/world.ts';

const HUB_QUERY =
  'query Flat($n: Int) { projects(first: $n) { nodes { id name fullPath starCount namespace { fullName } } } }';
const POSTGRAPHILE_QUERY = `query Flat($n: Int) { allProjects(first: $n, orderBy: PRIMARY_KEY_DESC) {
  nodes { id name fullPath starCount namespaceByNamespaceId { fullName } } } }`;

/**
 * A page of public projects with their namespaces, without a credential on either side, because PostGraphile does not
 * authenticate. Then the same with a token, which only the hub looks up and checks.
 */
export const graphqlFlat = async (world: World): Promise<Outcome> => {
  const database = await world.createDatabase();
  const hub = await database.startHub();
  const { token } = await seed(database.pool, { groups: 20, projectsPerGroup: 50, visibility: 'public' });
  const postgraphile = await database.startBaseline('postgraphile.js');
  const [toHub, toPostgraphile] = [openHttp(hub.url), openHttp(postgraphile.url)];
  try {
    const variables = { n: 20 };
    const onHub = { pid: hub.pid, http: toHub, path: '/api/graphql', query: HUB_QUERY, variables };
    const anonymous = await graphqlSide('hub', onHub);
    const asMember = await graphqlSide('hub as a member', { ...onHub, token });
    const baseline = await graphqlSide('PostGraphile', {
      pid: postgraphile.pid,
      http: toPostgraphile,
      path: '/graphql',
      query: POSTGRAPHILE_QUERY,
      variables,
    });
    for (const side of [anonymous, asMember])
      if (String(valuesOf(side.data, 'fullPath')) !== String(valuesOf(baseline.data, 'fullPath')))
        throw new Error('the two servers list different projects');
    const against = { baseline, databaseMs: database.cpuMs, atLeast: 1.3 };
    const outcome = await compare({ ...against, hub: anonymous });
    const beside = await compare({ ...against, hub: asMember, rounds: 4 });
    return {
      target: `${outcome.target}, with and without a token`,
      reached: outcome.reached && beside.reached,
      lines: [...outcome.lines, ...beside.lines],
    };
  } finally {
    await Promise.all([toHub.close(), toPostgraphile.close()]);
    await database.close();
  }
};
