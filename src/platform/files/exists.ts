import { access } from 'node:fs/promises';

/** Returns true if there is a file or folder at the path that this process can reach. */
export const exists = (path: string): Promise<boolean> =>
  access(path).then(
    () => true,
    () => false,
  );
