import type { IncomingMessage } from 'node:http';

/** As much as the largest body that is no file. */
const MAX_DRAINED_BYTES = 32 * 1024 * 1024;

/**
 * For an answer that does not wait for the body. Many clients read no answer before they have sent everything: what they send
 * is thrown away, up to a bound, and the connection may be used again. Who sends more than that is cut off.
 */
export const drainBody = (request: IncomingMessage): void => {
  let left = MAX_DRAINED_BYTES;
  // Attached before the answer is out: from then on node would throw away what comes, uncounted.
  request.on('data', (chunk: Buffer) => {
    left -= chunk.length;
    if (left < 0) request.destroy();
  });
  request.resume();
};
