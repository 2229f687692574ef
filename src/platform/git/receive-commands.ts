import { GitError } from './git-error.ts';
import { FLUSH, PacketSplitter, packet } from './pkt-line.ts';
import { shortName, validOid, validRefName } from './ref-names.ts';
import type { RefRefusal, RefUpdate } from './types.ts';

/** The head of a push, read before any object is. */
export interface ReceiveCommands {
  readonly updates: readonly RefUpdate[];
  readonly capabilities: ReadonlySet<string>;
  /** What `git push -o` gave along. */
  readonly pushOptions: readonly string[];
  /** The whole request again, without push options: the head, then the rest as it comes. */
  readonly body: AsyncIterable<Buffer>;
}

const MAX_COMMANDS = 50_000;
const MAX_HEAD_BYTES = 16 * 1024 * 1024;
const MAX_PUSH_OPTIONS = 50;
const MAX_PUSH_OPTION_BYTES = 1_024;
const PUSH_OPTIONS = 'push-options';

const malformed = () => new GitError('invalid', 'The push request is malformed');

/** Reads the command list of a `git-receive-pack` request (gitprotocol-pack). Throws `invalid` when it is malformed or too long. */
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
  // git never sees push options: it would hand them to hooks.
  const first = inOptions ? [...withoutOptions(lines), FLUSH, splitter.rest()] : head;
  return { updates, capabilities, pushOptions, body: replay(first, source) };
};

const readPushOption = (payload: Buffer): string => {
  const text = payload.toString('utf8').replace(/\n$/, '');
  // biome-ignore lint/suspicious/noControlCharactersInRegex: nothing of the kind is an option
  if (payload.length > MAX_PUSH_OPTION_BYTES || /[\u0000-\u001f\u007f]/.test(text)) {
    throw new GitError('invalid', 'A push option is not valid');
  }
  return text;
};

/** The lines as packets; the client asked for push options behind the first command. */
const withoutOptions = (lines: readonly Buffer[]): Buffer[] =>
  lines.map((line) => {
    const nul = line.indexOf(0);
    if (nul === -1) return packet(line);
    const kept = line
      .toString('latin1', nul + 1)
      .split(' ')
      .filter((capability) => capability.trim() !== PUSH_OPTIONS);
    return packet(Buffer.concat([line.subarray(0, nul + 1), Buffer.from(kept.join(' '), 'latin1')]));
  });

/** Why the hub never takes these updates, whoever pushes; only branches and tags with valid names can be written. */
export const refuseForeignRefs = (updates: readonly RefUpdate[]): RefRefusal[] =>
  updates.flatMap(({ ref, newOid }): RefRefusal[] => {
    const name = shortName(ref);
    if (name === null) return [{ ref, reason: 'only branches and tags can be pushed' }];
    // What has a bad name already can still be deleted.
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

async function* replay(head: readonly Buffer[], source: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  yield* head;
  for (let step = await source.next(); !step.done; step = await source.next()) yield step.value;
}
