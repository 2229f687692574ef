import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import { announce } from './announce.ts';

// The minimum for a list of branches: run git to list all of them and send the first twenty. Reads no commits, and does
// not check callers, permissions, or whether branches are merged or protected.
const ARGS = ['-C', process.env.REPOSITORY ?? '', 'for-each-ref', '--format=%(objectname) %(refname)', 'refs/heads/'];

const server = createServer((_request, response) => {
  execFile('git', ARGS, { maxBuffer: 64 * 1024 * 1024 }, (error, stdout) => {
    if (error) return void response.writeHead(500).end(String(error));
    const branches = stdout
      .trimEnd()
      .split('\n')
      .map((line) => ({ oid: line.slice(0, 40), name: line.slice(41 + 'refs/heads/'.length) }));
    const body = Buffer.from(JSON.stringify(branches.slice(0, 20)));
    response
      .writeHead(200, { 'content-type': 'application/json', 'content-length': body.length, 'x-total': branches.length })
      .end(body);
  });
});
announce(server);
