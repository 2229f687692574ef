import { accessSync, constants, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { GitError } from './git-error.ts';
import type { GitProcess } from './process.ts';

/**
 * git runs this once the objects of a push are in quarantine and before any ref moves. It passes the question to the
 * hub over file descriptor 3 and does as it is told; when the hub is gone the answer is no. Nothing from outside
 * is put into its text.
 */
const SCRIPT = `#!/bin/sh
printf '%s\\n' "\${GIT_QUARANTINE_PATH-}" >&3 || exit 1
IFS= read -r verdict <&3 || exit 1
test "$verdict" = ok && exit 0
cat <&3 >&2
exit 1
`;

/**
 * git runs this when the new values of all refs are written beside the old ones, and again when they have taken their
 * place: it waits for the disk once for all, and not for each file.
 */
const SYNC_SCRIPT = `#!/bin/sh
case "$1" in prepared|committed) sync -f . || sync ;; esac
`;

/** What a check may use to look at objects that have arrived but are not taken yet. */
export interface Incoming {
  /** For git calls that must see them. */
  readonly env: Readonly<Record<string, string>>;
}

export interface IncomingHook {
  readonly config: readonly string[];
  /** For a push that moves many refs at once: as durable as one ref after the other. */
  readonly manyRefsConfig: readonly string[];
  /** Asks `judge` when git calls; it resolves to lines for the terminal that refuse the push, or null to let it pass. */
  attend(git: GitProcess, judge: (incoming: Incoming) => Promise<string | null>): void;
}

/** Puts the hook into a folder of its own below the root. */
export const createIncomingHook = (root: string): IncomingHook => {
  const folder = join(root, '.hooks');
  const manyRefs = join(folder, 'many-refs');
  const file = writeHook(folder, 'pre-receive', SCRIPT);
  writeHook(manyRefs, 'pre-receive', SCRIPT);
  writeHook(manyRefs, 'reference-transaction', SYNC_SCRIPT);

  return {
    config: [`core.hooksPath=${folder}`],
    manyRefsConfig: [`core.hooksPath=${manyRefs}`, 'core.fsync=objects'],
    attend(git, judge) {
      // git passes over a hook it may not run (a noexec mount): then nothing may be pushed.
      try {
        accessSync(file, constants.X_OK);
      } catch (cause) {
        git.kill('failed');
        throw new GitError('failed', 'The push cannot be checked', { cause });
      }
      const { channel } = git;
      if (channel === null) throw new GitError('failed', 'The push cannot be checked');
      channel.on('error', () => {}); // git ended: nobody is left to ask
      let asked = '';
      channel.setEncoding('utf8');
      const onData = (chunk: string) => {
        asked += chunk;
        if (!asked.includes('\n')) return;
        channel.off('data', onData);
        const quarantine = asked.slice(0, asked.indexOf('\n'));
        judge({ env: quarantineEnv(quarantine) }).then(
          (refusal) => channel.end(refusal === null ? 'ok\n' : `no\n${refusal}`),
          () => channel.end('no\nThe push could not be checked\n'),
        );
      };
      channel.on('data', onData);
      // Left open it would outlive a push that never came to the hook.
      git.exited.finally(() => channel.destroy()).catch(() => {});
    },
  };
};

const writeHook = (folder: string, name: string, script: string): string => {
  const file = join(folder, name);
  mkdirSync(folder, { recursive: true });
  // Written aside: another process may be running the one that is there.
  const fresh = `${file}.${process.pid}`;
  writeFileSync(fresh, script, { mode: 0o755 });
  renameSync(fresh, file);
  return file;
};

/** A push without objects (a deletion) has no quarantine. The quarantine lies in the repository's object folder, which stays an alternate. */
const quarantineEnv = (quarantine: string): Record<string, string> =>
  quarantine === ''
    ? {}
    : { GIT_OBJECT_DIRECTORY: quarantine, GIT_ALTERNATE_OBJECT_DIRECTORIES: join(quarantine, '..') };
