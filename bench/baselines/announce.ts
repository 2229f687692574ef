import type { Server } from 'node:http';

/** Listens on a free loopback port and prints the URL, as lib/processes.ts expects. */
export const announce = (server: Server): void => {
  server.listen(0, '127.0.0.1', () => {
    const address = server.address();
    if (address === null || typeof address === 'string') throw new Error('no address');
    console.log(`ready http://127.0.0.1:${address.port}`);
  });
  process.once('SIGTERM', () => process.exit(0));
};
