import { randomUUID } from 'node:crypto';
import { accessSync, constants, mkdirSync, renameSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { GitError } from '../git-error.ts';
import type { GitProcess } from '../process/runner.ts';

/**
 * git runs this script when the objects of a push are in quarantine, before any ref moves. The script asks the hub over
 * file descriptor 3 and follows its answer. If the hub is gone, it refuses the push. The text contains no outside
 * input.
 */
const SCRIPT = `#!/bin/sh
printf '%s\\n' "\${GIT_QUARANTINE_PATH-}" >&3 || exit 1
IFS= read -r verdict <&3 || exit 1
test "$verdict" = ok && exit 0
cat <&3 >&2
exit 1
`;

/**
 * git runs this script when the new values of all refs are written next to the old ones, and again when they have
 * replaced them. It waits for the disk once for all refs, instead of once per file.
 */
const SYNC_SCRIPT = `#!/bin/sh
case "$1" in prepared|committed) sync -f . || sync ;; esac
`;

/** The access of a check to objects that have arrived but are not accepted yet. */
export interface Incoming {
  /** The environment for git calls that must see these objects. */
  readonly env: Readonly<Record<string, string>>;
}

export interface IncomingHook {
  readonly config: readonly string[];
  /** For a push that moves many refs at once. It is as durable as moving one ref after the other. */
  readonly manyRefsConfig: readonly string[];
  /**
   * Calls `judge` when git runs the hook. `judge` resolves to the terminal lines that refuse the push, or null to
   * accept it.
   */
  attend(git: GitProcess, judge: (incoming: Incoming) => Promise<string | null>): void;
}

/** Writes the hooks into their own folder below the root. */
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
      // git skips a hook that it may not execute, such as on a noexec mount. Then pushes must fail.
      try {
        accessSync(file, constants.X_OK);
      } catch (cause) {
        git.kill('failed');
        throw new GitError('failed', 'The push cannot be checked', { cause });
      }
      const { channel } = git;
      if (channel === null) throw new GitError('failed', 'The push cannot be checked');
      channel.on('error', () => {}); // git has ended and reads no answer
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
      // Otherwise the channel would stay open after a push that never reached the hook.
      git.exited.finally(() => channel.destroy()).catch(() => {});
    },
  };
};

const writeHook = (folder: string, name: string, script: string): string => {
  const file = join(folder, name);
  mkdirSync(folder, { recursive: true });
  // Written to another file and renamed, because another process may be running the existing hook. Processes in containers
  // may have the same id.
  const fresh = `${file}.${randomUUID()}`;
  writeFileSync(fresh, script, { mode: 0o755, flag: 'wx' });
  renameSync(fresh, file);
  return file;
};

/**
 * A push without objects (a deletion) has no quarantine. The quarantine is in the object folder of the repository,
 * which stays an alternate.
 */
const quarantineEnv = (quarantine: string): Record<string, string> =>
  quarantine === ''
    ? {}
    : { GIT_OBJECT_DIRECTORY: quarantine, GIT_ALTERNATE_OBJECT_DIRECTORIES: join(quarantine, '..') };
