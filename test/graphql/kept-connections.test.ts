import { Agent, request } from 'node:http';
import type { Socket } from 'node:net';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { builder } from '#graphql/builder.ts';
import { startServer } from './server.ts';

builder.queryField('keptPing', (t) => t.string({ resolve: () => 'pong' }));

let server: Awaited<ReturnType<typeof startServer>>;
const sockets: Socket[] = [];
// One connection for all requests.
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
beforeAll(async () => {
  server = await startServer();
  server.app.server.on('connection', (socket) => sockets.push(socket));
});
afterAll(async () => {
  agent.destroy();
  await server.app.close();
});

const ask = (accept: string): Promise<string> => {
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const headers = { 'content-type': 'application/json', accept };
  const sent = request(server.url, { method: 'POST', agent, headers }, (response) => {
    response.setEncoding('utf8');
    let text = '';
    response.on('data', (chunk: string) => {
      text += chunk;
    });
    response.on('end', () => resolve(text));
  });
  sent.on('error', reject);
  sent.end(JSON.stringify({ query: '{ keptPing }' }));
  return promise;
};

it('leaves nothing of an ended event stream on a connection that the client keeps', async () => {
  const listeners = () => sockets.map((socket) => socket.listenerCount('drain'));
  await ask('application/json');
  const before = listeners();
  for (let round = 0; round < 3; round += 1) {
    expect(await ask('text/event-stream')).toContain('event: complete');
  }
  // When this is answered, the last stream is over.
  await ask('application/json');
  expect(before).toHaveLength(1);
  expect(listeners()).toEqual(before);
});
