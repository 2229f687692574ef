import { GitError } from '../git-error.ts';
import type { RefRefusal, RefUpdate } from '../http.ts';
import { shortName, validOid, validRefName } from '../ref-names.ts';
import { FLUSH, PacketSplitter, packet } from './pkt-line.ts';

/** The start of a push request, read before any object. */
export interface ReceiveCommands {
  readonly updates: readonly RefUpdate[];
  readonly capabilities: ReadonlySet<string>;
  /** The values of `git push -o`. */
  readonly pushOptions: readonly string[];
  /** True for a push of many refs: git must move all of them or none. */
  readonly isWhole: boolean;
  /** Resolves when the pack starts to arrive, or the request has ended. */
  awaitPack(): Promise<void>;
  /** The whole request as git should see it, without push options: the commands, then the rest as it arrives. */
  readonly body: AsyncIterable<Buffer>;
}

const MAX_COMMANDS = 50_000;
const MAX_HEAD_BYTES = 16 * 1024 * 1024;
const MAX_PUSH_OPTIONS = 50;
const MAX_PUSH_OPTION_BYTES = 1_024;
const PUSH_OPTIONS = 'push-options';
/**
 * Moving this many refs one by one is slow: each deletion rewrites the packed refs, and each new ref waits for the
 * disk.
 */
const MANY_REFS = 100;
const ATOMIC = 'atomic';

const malformed = () => new GitError('invalid', 'The push request is malformed');

/**
 * Reads the command list of a `git-receive-pack` request (gitprotocol-pack).
 *
 * @throws GitError `invalid` if it is malformed or too long
 */
export const readReceiveCommands = async (source: AsyncIterator<Buffer>): Promise<ReceiveCommands> => {
  const splitter = new PacketSplitter();
  const head: Buffer[] = [];
  const updates: RefUpdate[] = [];
  const lines: Buffer[] = [];
  const pushOptions: string[] = [];
  let inOptions = false;
  let capabilities: ReadonlySet<string> = new Set();
  let size = 0;

  reading: for (;;) {
    const step = await source.next();
    if (step.done) throw malformed();
    head.push(step.value);
    size += step.value.length;
    splitter.push(step.value);
    for (let payload = splitter.next(); payload !== null; payload = splitter.next()) {
      if (payload === 'flush') {
        if (inOptions || !capabilities.has(PUSH_OPTIONS)) break reading;
        inOptions = true;
        continue;
      }
      if (inOptions) {
        pushOptions.push(readPushOption(payload));
        if (pushOptions.length > MAX_PUSH_OPTIONS) throw new GitError('invalid', 'The push has too many push options');
        continue;
      }
      lines.push(payload);
      const text = payload.toString('utf8');
      if (text.startsWith('shallow ')) continue;
      const [command = '', list] = text.split('\0', 2);
      if (updates.length === 0 && list !== undefined) capabilities = new Set(list.trim().split(' '));
      updates.push(parseCommand(command.replace(/\n$/, '')));
      if (updates.length > MAX_COMMANDS) throw new GitError('invalid', 'The push changes too many references');
    }
    if (size > MAX_HEAD_BYTES) throw new GitError('invalid', 'The push request is too long');
  }
  const isWhole = updates.length >= MANY_REFS && capabilities.size > 0 && !takesPlaces(updates);
  const first = inOptions || isWhole ? [...asForGit(lines, isWhole), FLUSH, splitter.rest()] : head;
  const awaitPack = async () => {
    if (splitter.rest().length > 0 || updates.every(({ newOid }) => newOid === null)) return;
    const step = await source.next();
    if (!step.done) first.push(step.value);
  };
  return { updates, capabilities, pushOptions, isWhole, awaitPack, body: replay(first, source) };
};

const readPushOption = (payload: Buffer): string => {
  const text = payload.toString('utf8').replace(/\n$/, '');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: push options must not contain them
  if (payload.length > MAX_PUSH_OPTION_BYTES || /[\u0000-\u001f\u007f]/.test(text)) {
    throw new GitError('invalid', 'A push option is not valid');
  }
  return text;
};

/**
 * Encodes the lines as packets, with adjusted capabilities after the first command. git never sees push options,
 * because it would pass them to hooks.
 */
const asForGit = (lines: readonly Buffer[], isWhole: boolean): Buffer[] =>
  lines.map((line) => {
    const nul = line.indexOf(0);
    if (nul === -1) return packet(line);
    const asked = line
      .toString('latin1', nul + 1)
      .trim()
      .split(' ');
    const kept = asked.filter((capability) => capability !== PUSH_OPTIONS && capability !== ATOMIC);
    const atomic = isWhole || asked.includes(ATOMIC) ? [ATOMIC] : [];
    return packet(Buffer.concat([line.subarray(0, nul + 1), Buffer.from([...kept, ...atomic].join(' '), 'latin1')]));
  });

/**
 * Returns true if a new ref takes the place of a deleted one, such as `a/b` instead of `a`. git can only do that one
 * after the other, not at once.
 */
const takesPlaces = (updates: readonly RefUpdate[]): boolean => {
  const namesOf = (isDeleted: boolean) =>
    updates.flatMap(({ ref, newOid }) => ((newOid === null) === isDeleted ? [ref] : []));
  const isAbove = (names: readonly string[], others: readonly string[]) => {
    const all = new Set(names);
    return others.some((other) => foldersOf(other).some((folder) => all.has(folder)));
  };
  const [gone, there] = [namesOf(true), namesOf(false)];
  return isAbove(gone, there) || isAbove(there, gone);
};

const foldersOf = (ref: string): string[] => [...ref.matchAll(/\//g)].map(({ index }) => ref.slice(0, index));

const NOTES = 'refs/notes/';

/**
 * Returns the updates that the hub never accepts from anyone: only branches, tags and notes with valid names can be
 * written. Release tools use notes on commits to record their releases.
 */
export const refuseForeignRefs = (updates: readonly RefUpdate[]): RefRefusal[] =>
  updates.flatMap(({ ref, newOid }): RefRefusal[] => {
    const name = ref.startsWith(NOTES) ? ref.slice(NOTES.length) : shortName(ref);
    if (name === null) return [{ ref, reason: 'only branches, tags and notes can be pushed' }];
    // An existing ref with an invalid name can still be deleted.
    if (newOid !== null && !validRefName(name)) return [{ ref, reason: 'the name is not valid' }];
    return [];
  });

const parseCommand = (line: string): RefUpdate => {
  const [oldOid = '', newOid = '', ...ref] = line.split(' ');
  const name = ref.join(' ');
  if (!validOid(oldOid) || !validOid(newOid) || !name.startsWith('refs/') || name.includes('\n')) throw malformed();
  return { ref: name, oldOid: orNull(oldOid), newOid: orNull(newOid) };
};

const orNull = (oid: string): string | null => (/^0+$/.test(oid) ? null : oid);

/** Yields the chunks that were already read, then the rest. */
export async function* replay(head: readonly Buffer[], source: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  yield* head;
  for (let step = await source.next(); !step.done; step = await source.next()) yield step.value;
}
