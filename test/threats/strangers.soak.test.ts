import { beforeAll, describe, expect, it } from 'vitest';
import { routes } from '#app/routes.ts';
import type { Route } from '#rest/route.ts';
import { type TestUser, useApp } from '../support/app.ts';
import type { Answer, Client } from '../support/client.ts';
import { collectionOf, fillPath, givenFor, privateWorld, requiredOf, type World } from './world.ts';

// Threats, Authorisation: covers every declared route, so that each new route is tested too.

const NOTHING_THERE = 987_654_321;
const app = useApp({ sweep: true });
let world: World;
let stranger: TestUser;

beforeAll(async () => {
  world = await privateWorld(app());
  stranger = await app().make.user();
});

/** Values of the first path parameter, by id and by path: each an existing one and an unknown one. */
const topsOf = (route: Route): readonly (readonly [real: string | number, nothing: string | number])[] => {
  switch (collectionOf(route)) {
    case 'projects':
      return [
        [world.project.id, NOTHING_THERE],
        [world.project.path_with_namespace, `${world.group.full_path}/nothing`],
      ];
    case 'groups':
    case 'namespaces':
      return [
        [world.group.id, NOTHING_THERE],
        [world.subgroup.full_path, `${world.group.full_path}/nothing`],
      ];
    case 'personal_access_tokens':
      return [[world.ids.token_id ?? 1, NOTHING_THERE]];
    default:
      return [];
  }
};

/** Routes whose purpose is to report whether a path is taken. */
const TELLS_BY_DESIGN = new Set(['/namespaces/:path/exists']);

const guarded = routes.filter(
  (route) => route.pathNames.length > 0 && !route.admin && !TELLS_BY_DESIGN.has(route.path),
);

const ask = async (client: Client, route: Route, top: string | number): Promise<Answer> => {
  const ids = { ...world.ids, user_id: stranger.id };
  const answer = await askWith(client, route, top, requiredOf(route, ids));
  // Some routes need one of several parameters, which the refusal names.
  const [, one] =
    /^(\w+)(?:, \w+)* (?:are|is) missing/.exec(answer.status === 400 ? String(answer.body.error) : '') ?? [];
  return one === undefined ? answer : askWith(client, route, top, { ...requiredOf(route, ids), ...givenFor(one, ids) });
};

const askWith = (
  client: Client,
  route: Route,
  top: string | number,
  body: Record<string, unknown>,
): Promise<Answer> => {
  const url = fillPath(route, top, world.ids);
  if (route.method === 'GET') {
    const query = new URLSearchParams(
      Object.entries(body).flatMap(([name, value]) =>
        Array.isArray(value) ? value.map((each) => [`${name}[]`, String(each)]) : [[name, String(value)]],
      ),
    );
    return client.get(query.size > 0 ? `${url}?${query}` : url);
  }
  if (route.files.size === 0) return client.request(route.method, url, body);
  const form = new FormData();
  for (const [name, value] of Object.entries(body)) {
    form.append(name, route.files.has(name) ? new Blob(['fuzz']) : String(value));
  }
  return client.request(route.method, url, form);
};

const snapshot = async (): Promise<unknown> => {
  await app().settle(); // Creating records also updates `last_activity_at`.
  const client = app().as(world.owner);
  const parts = ['', '/members', '/labels', '/milestones', '/repository/branches', '/protected_branches'];
  const of = async (path: string) => (await client.get(path)).body;
  return Promise.all([
    ...parts.map((part) => of(`/projects/${world.project.id}${part}`)),
    of(`/groups/${world.group.id}`),
    of(`/groups/${world.group.id}/members`),
    // Ignore the last use, which is recorded after the requests and only now and then.
    of('/personal_access_tokens').then((tokens) => tokens.map((token: object) => ({ ...token, last_used_at: null }))),
  ]);
};

describe('a private record', () => {
  it('is not revealed by an unsupported method', async () => {
    const wrong: unknown[] = [];
    // The answer depends on the path alone, and names all its methods.
    for (const [path, [route, ...others]] of Map.groupBy(guarded, (each) => each.path)) {
      if (!route) continue;
      const methods = [route, ...others].map(({ method }) => method);
      for (const [real, nothing] of topsOf(route)) {
        const [there, absent] = await Promise.all(
          [real, nothing].map((top) =>
            app()
              .as(stranger)
              .request('OPTIONS', fillPath(route, top, world.ids)),
          ),
        );
        const answers = [there, absent].map((answer) => [answer?.status, answer?.headers.get('allow'), answer?.body]);
        const namesAll = (allow: string | null) => methods.every((method) => allow?.includes(method));
        const expected = [405, expect.toSatisfy(namesAll), { error: '405 Not Allowed' }];
        try {
          expect(answers).toEqual([expected, answers[0]]);
        } catch {
          wrong.push([methods, path, answers]);
        }
      }
    }
    expect(wrong).toEqual([]);
  });

  it('is not revealed to strangers and anonymous callers, on any route', async () => {
    const before = await snapshot();
    const leaks: unknown[] = [];
    let asked = 0;
    for (const [r, route] of guarded.entries()) {
      for (const [t, [real, nothing]] of topsOf(route).entries()) {
        for (const [who, client] of [
          ['stranger', app().as(stranger)],
          ['anonymous', app().anonymous],
        ] as const) {
          // Anonymous callers name the record of a route by its id, and that of the next route by its path.
          if (who === 'anonymous' && topsOf(route).length > 1 && (r + t) % 2 === 0) continue;
          const [there, absent] = await Promise.all([ask(client, route, real), ask(client, route, nothing)]);
          asked++;
          const expected = who === 'anonymous' ? [401, 404] : [404];
          const same = there.status === absent.status && JSON.stringify(there.body) === JSON.stringify(absent.body);
          if (!same || !expected.includes(there.status)) {
            leaks.push({
              route: `${route.method} ${route.path}`,
              who,
              there: [there.status, there.body],
              absent: [absent.status, absent.body],
            });
          }
        }
      }
    }
    expect(leaks).toEqual([]);
    expect(asked).toBeGreaterThan(200);
    expect(await snapshot()).toEqual(before);
  });
});
