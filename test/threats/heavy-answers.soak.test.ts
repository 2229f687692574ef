import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { sql } from 'kysely';
import { beforeAll, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import type { TestProject } from '../support/factories.ts';
import { until } from '../support/until.ts';

const app = useApp();
let project: TestProject;

beforeAll(async () => {
  const owner = await app().make.user();
  project = await app().make.project({ visibility: 'public' }, owner);
  await sql`
    insert into issues (project_id, iid, title, description, author_id)
      select ${project.id}, n, 'Long', ${'x'.repeat(1_048_576)}, ${owner.id} from generate_series(1, 33) n`.execute(
    app().hub.services.db,
  );
});

const graphql = async (first: number, type = 'application/json') => {
  const query = `{ project(fullPath: "${project.path_with_namespace}") { issues(first: ${first}) { nodes { description } } } }`;
  return fetch(`${app().url}/api/graphql`, {
    method: 'POST',
    headers: { 'content-type': type },
    body: type === 'application/json' ? JSON.stringify({ query }) : query,
  });
};

it('refuses a page with an answer above 32 MiB, and serves a smaller one', async () => {
  const refused = await app().anonymous.get(`/projects/${project.id}/issues?per_page=100`);
  expect(refused.status).toBe(400);
  expect(JSON.stringify(refused.body)).toContain('per_page is too large for records of this size');
  expect(refused.headers.get('x-total')).toBeNull();
  const answered = await app().anonymous.get(`/projects/${project.id}/issues?per_page=30`);
  expect([answered.status, answered.body.length]).toEqual([200, 30]);

  expect((await (await graphql(100)).json()).errors[0].message).toContain('The answer exceeds the limit');
  expect((await (await graphql(30)).json()).data.project.issues.nodes).toHaveLength(30);
});

/** Asks for a page of 30 MiB, and reads only its status. */
const askWithoutReading = async (): Promise<{ socket: Socket; status: string }> => {
  const { hostname, port } = new URL(app().url);
  const socket = connect(Number(port), hostname);
  socket.write(`GET /api/v4/projects/${project.id}/issues?per_page=30 HTTP/1.1\r\nHost: x\r\n\r\n`);
  await once(socket, 'readable');
  return { socket, status: String(socket.read(12)) };
};

it('refuses further large answers to an address that does not read what it asked for, and no small ones', async () => {
  const unread: Socket[] = [];
  for (let n = 0; n < 4; n++) {
    const { socket, status } = await askWithoutReading();
    unread.push(socket);
    expect(status).toBe('HTTP/1.1 200');
  }
  const unsent = () => app().hub.services.answers.figures().unsentBytes;
  expect(unsent()).toBeGreaterThan(4 * 30 * 1_048_576);

  const refused = await app().anonymous.get(`/projects/${project.id}/issues?per_page=30`);
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '5']);
  expect(refused.headers.get('x-total')).toBeNull();
  for (const type of ['application/json', 'application/graphql']) {
    const query = await graphql(30, type);
    expect([query.status, query.headers.get('retry-after')]).toEqual([429, '5']);
    expect((await query.json()).errors).toHaveLength(1);
  }
  expect((await app().anonymous.get(`/projects/${project.id}`)).status).toBe(200);

  for (const socket of unread) socket.destroy();
  await until('the hub notices that the clients have gone', () => unsent() === 0);
  const answer = await graphql(30);
  expect(answer.status).toBe(200);
  await answer.arrayBuffer();
  await until('all bytes are released', () => unsent() === 0);
});
