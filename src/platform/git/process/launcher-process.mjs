// The launcher: a process with a tiny heap that starts git for the hub. A fork copies the page tables of its process,
// which takes tens of milliseconds in the hub and a fraction of one here. launcher.ts is the hub's side.
//
// The hub opens one connection for each standard stream of a git process, in order, and then sends the request. Both
// arrive in the order in which they were sent, so the first request owns the first connections. git gets the
// connections themselves: none of its bytes pass through here.
//
// Plain JavaScript, because stripping types would take more memory than everything else.
import { spawn } from 'node:child_process';
import { rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { dirname } from 'node:path';
import process from 'node:process';

/** @import { Socket } from 'node:net' */
/** @import { LauncherMessage, Request } from './launcher.ts' */

const KILL_GRACE_MS = 3_000;
/** The kernel reduces it to its own limit. */
const BACKLOG = 4_096;
const STREAMS = 3;

const [, , path = ''] = process.argv;
/** @type {Socket[]} */
const connections = [];
/** @type {Request[]} */
const requests = [];
/** @type {Map<number, import('node:child_process').ChildProcess>} */
const running = new Map();
/** Signals for processes that have not been started yet. @type {Map<number, NodeJS.Signals>} */
const early = new Map();
let isEnding = false;

/** @param {LauncherMessage} message */
const report = (message) => {
  if (process.connected) process.send?.(message, () => {});
};

/** @param {number} id @param {NodeJS.Signals} signal */
const signalGroup = (id, signal) => {
  const pid = running.get(id)?.pid;
  if (pid === undefined) {
    if (requests.some((request) => request.id === id)) early.set(id, signal);
    return;
  }
  try {
    process.kill(-pid, signal);
  } catch {
    // The whole group has ended, and its exit event will follow.
  }
};

/** @param {Request} request @param {Socket[]} streams */
const start = (request, streams) => {
  try {
    spawnOn(request, streams);
  } catch (error) {
    // Arguments that are too long, for instance.
    ended(request.id, { id: request.id, error: String(error) });
    for (const stream of streams) stream.destroy();
  }
};

/** @param {Request} request @param {Socket[]} streams */
const spawnOn = ({ id, file, args, cwd, env, channel }, streams) => {
  const [stdin, stdout, stderr, line] = streams;
  const child = spawn(file, args, {
    cwd,
    env,
    // Node makes the first three descriptors blocking, as programs expect, but not the others. A hook reads the channel
    // with the shell, which cannot handle a non-blocking descriptor. Its few lines therefore pass through a pipe of our
    // own.
    stdio: [stdin, stdout, stderr, ...(channel ? /** @type {const} */ (['pipe']) : [])],
    // A process group of its own, so that git and its child processes can be ended together.
    detached: true,
  });
  for (const stream of [stdin, stdout, stderr]) stream?.destroy();
  const pipe = child.stdio[3];
  if (line && pipe && 'write' in pipe && 'read' in pipe) {
    pipe.on('error', () => {});
    line.pipe(pipe).pipe(line);
  }
  running.set(id, child);
  child.once('error', (error) => ended(id, { id, error: error.message }));
  child.once('exit', (code) => {
    // Child processes that it left behind would keep its streams open.
    signalGroup(id, 'SIGTERM');
    ended(id, { id, code });
  });
  if (child.pid !== undefined) report({ id, pid: child.pid });
  const signal = early.get(id);
  if (signal !== undefined) signalGroup(id, signal);
};

/** @param {number} id @param {LauncherMessage} message */
const ended = (id, message) => {
  running.delete(id);
  early.delete(id);
  report(message);
  if (isEnding && running.size === 0) process.exit();
};

const startWhatIsComplete = () => {
  for (let [next] = requests; next; [next] = requests) {
    const count = STREAMS + (next.channel ? 1 : 0);
    if (connections.length < count) return;
    requests.shift();
    start(next, connections.splice(0, count));
  }
};

/**
 * The hub has gone or is closing, so nothing reads running processes any more. SIGTERM lets git remove its lock files.
 */
const end = () => {
  isEnding = true;
  if (running.size === 0) process.exit();
  for (const id of running.keys()) signalGroup(id, 'SIGTERM');
  setTimeout(() => {
    for (const id of running.keys()) signalGroup(id, 'SIGKILL');
    process.exit();
  }, KILL_GRACE_MS);
};

// A terminal or a service manager signals every process of the hub. Only the hub decides when this one ends.
for (const signal of /** @type {const} */ (['SIGINT', 'SIGTERM', 'SIGHUP'])) process.on(signal, () => {});
process.on('disconnect', end);
// The hub would remove it, but may have been killed.
process.on('exit', () => rmSync(dirname(path), { recursive: true, force: true }));
process.on('message', (/** @type {Request | { id: number, signal: NodeJS.Signals }} */ message) => {
  if ('signal' in message) return signalGroup(message.id, message.signal);
  requests.push(message);
  startWhatIsComplete();
});

// Paused, because git must read what the hub writes. Half open, because git may still write after the hub has finished.
const server = createServer({ pauseOnConnect: true, allowHalfOpen: true }, (connection) => {
  connection.on('error', () => {}); // the hub no longer reads the output
  connections.push(connection);
  startWhatIsComplete();
});
server.listen({ path, backlog: BACKLOG }, () => report({ ready: true }));
