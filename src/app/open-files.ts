import { readFileSync } from 'node:fs';
import type { Logger } from '#platform/log.ts';

/**
 * Returns how many connections the server may accept: as many as configured, but at most half of the files that the
 * process may open. git, the database and stored files need the others, and the system drops connections without an
 * answer when none is left.
 */
export const boundConnections = (configured: number, log: Logger): number => {
  const files = maxOpenFiles();
  const connections = Math.min(configured, Math.floor(files / 2));
  if (connections < configured)
    log.warn(
      { files, connections },
      'this process may open so few files that it accepts fewer connections than MILLRACE_CONNECTIONS: raise its limit (ulimit -n)',
    );
  return connections;
};

/** Node has already raised the limit as far as the system lets it. */
const maxOpenFiles = (): number => {
  try {
    const [, files] = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'utf8')) ?? [];
    return files === undefined ? Number.POSITIVE_INFINITY : Number(files);
  } catch {
    return Number.POSITIVE_INFINITY; // Not Linux.
  }
};
