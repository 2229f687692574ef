import type { IncomingMessage } from 'node:http';

/** The size of the largest body that is not a file. */
const MAX_DRAINED_BYTES = 32 * 1024 * 1024;

/**
 * Discards the body of a request whose response does not wait for it. Many clients send everything before they read a
 * response. The body is discarded up to a limit, so that the connection can be reused. A client that sends more is
 * disconnected.
 */
export const drainBody = (request: IncomingMessage): void => {
  let left = MAX_DRAINED_BYTES;
  // Something that no longer reads the body would hold it up.
  request.unpipe();
  // Attached before the response is sent: after that, Node would discard the body without counting it.
  request.on('data', (chunk: Buffer) => {
    left -= chunk.length;
    if (left < 0) request.destroy();
  });
  request.resume();
};
