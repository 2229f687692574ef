import { createServer, type ServerResponse } from 'node:http';
import { announce } from './announce.ts';

// The minimum for many event streams: keep the responses, and on POST /send write one prepared frame to each. POST
// /frame sets the frame.
const responses = new Set<ServerResponse>();
let frame = Buffer.alloc(0);

const server = createServer((request, response) => {
  if (request.method === 'POST') {
    if (request.url === '/send') for (const each of responses) each.write(frame);
    const chunks: Buffer[] = [];
    request
      .on('data', (chunk: Buffer) => chunks.push(chunk))
      .on('end', () => {
        if (request.url === '/frame') frame = Buffer.concat(chunks);
        response.end();
      });
    return;
  }
  response.writeHead(200, { 'content-type': 'text/event-stream', 'cache-control': 'no-cache' });
  response.write(':\n\n');
  response.socket?.setNoDelay(true);
  responses.add(response);
  response.once('close', () => responses.delete(response));
});
announce(server);
