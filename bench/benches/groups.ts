import { compare, type Side } from '../lib/compare.ts';
import { tokensOf } from '../lib/data.ts';
import { openHttp } from '../lib/http.ts';
import type { Server } from '../lib/processes.ts';
import type { Outcome } from '../lib/report.ts';
import type { Database, World } from '../lib/world.ts';

const [FEW, MANY] = [1_000, 100_000];
const AGAINST_FLOOR = 0.75;
const MOST_GROWTH = 1.3;

/**
 * The lists to measure. Only the judged one must reach the share of the bare server, because it does the same work: no
 * total count, no authentication.
 */
const LISTS = [
  {
    name: 'of everyone by keyset',
    path: '/api/v4/groups?pagination=keyset&order_by=name',
    signedIn: false,
    judged: true,
  },
  { name: 'of everyone by pages', path: '/api/v4/groups', signedIn: false, judged: false },
  { name: 'of a member', path: '/api/v4/groups', signedIn: true, judged: false },
  { name: 'of all that a member sees', path: '/api/v4/groups?all_available=true', signedIn: true, judged: false },
  {
    name: 'found by similarity',
    path: '/api/v4/groups?search=c4ca4238&order_by=similarity',
    signedIn: false,
    judged: false,
  },
] as const;

/**
 * Several forms of `GET /groups` with 20 full records. Compares each with a bare server, and a hub with a hundred times
 * as many groups with a small one.
 */
export const groups = async (world: World): Promise<Outcome> => {
  const [few, many] = [await fill(world, FEW), await fill(world, MANY)];
  const open: (() => Promise<void>)[] = [];
  const sideOf = async (name: string, { url, pid }: Server, path: string, token: string | null): Promise<Side> => {
    const http = openHttp(url);
    open.push(() => http.close());
    const headers: Record<string, string> = token === null ? {} : { 'private-token': token };
    const { status, text } = await http.get(path, headers);
    if (status !== 200) throw new Error(`${name} answered ${status}: ${text}`);
    return { name, pid, send: () => http.drain({ method: 'GET', path, headers, leastBytes: text.length * 0.9 }) };
  };
  try {
    const floor = await sideOf('bare node:http', await few.database.startBaseline('groups.ts'), '/', null);
    const [hubOfFew, hubOfMany] = [await few.database.startHub(), await many.database.startHub()];
    // Both databases are in one Postgres server.
    const databaseMs = few.database.cpuMs;
    const lines: string[] = [];
    let reached = true;
    for (const { name, path, signedIn, judged } of LISTS) {
      const small = await sideOf('hub', hubOfFew, path, signedIn ? few.token : null);
      const large = await sideOf(`hub of ${MANY}`, hubOfMany, path, signedIn ? many.token : null);
      const toFloor = await compare({ hub: small, baseline: floor, databaseMs, atLeast: AGAINST_FLOOR, rounds: 4 });
      const growth = await compare({ hub: large, baseline: small, databaseMs, atLeast: 1 / MOST_GROWTH, rounds: 4 });
      reached &&= growth.reached && (toFloor.reached || !judged);
      lines.push(`${name}, to the floor:`, ...toFloor.lines, `${name}, to the hub of ${FEW}:`, ...growth.lines);
    }
    const target = `at least ${AGAINST_FLOOR} of bare node:http by keyset; ${MANY} groups at most ${MOST_GROWTH} times the cost of ${FEW}`;
    return { target, reached, lines };
  } finally {
    await Promise.all(open.map((close) => close()));
    await few.database.close();
    await many.database.close();
  }
};

/** Creates `count` groups, one in ten private and one in ten internal, and a user who is a member of 100 of them. */
const fill = async (world: World, count: number): Promise<{ database: Database; token: string }> => {
  const database = await world.createDatabase();
  await database.pool.query(`
    insert into users (username, name, email) values ('bench-1', 'Bench User', 'bench-1@example.com');
    insert into namespaces (kind, name, path, full_path, full_name, visibility_level, description)
      select 'group', 'Group ' || md5(i::text), 'number-' || i, 'number-' || i, 'Group ' || md5(i::text),
        case i % 10 when 0 then 0 when 1 then 10 else 20 end, 'Everything that team ' || i || ' works on'
      from generate_series(1, ${count}) i;
    update namespaces set traversal_ids = array[id];
    insert into members (user_id, namespace_id, access_level)
      select u.id, n.id, 30 from users u, namespaces n
      where n.kind = 'group' and n.id % ${count / 100} = 0 and u.username = 'bench-1';
    select refresh_namespace_access((select array_agg(namespace_id) from members), null);`);
  await database.pool.query('vacuum analyze');
  const { rows } = await database.pool.query<{ id: number }>(`select id from users where username = 'bench-1'`);
  const [token = ''] = await tokensOf(database.pool, [rows[0]?.id ?? 0]);
  return { database, token };
};
