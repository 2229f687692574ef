import { GitError } from '../git-error.ts';

export interface BundleHeader {
  readonly refs: readonly { readonly name: string; readonly oid: string }[];
  /** The pack that follows the header. */
  readonly pack: AsyncIterable<Buffer>;
}

const MAX_HEADER_BYTES = 64 * 1024 * 1024;
const MAX_LINE_BYTES = 8 * 1024;
const REF_LINE = /^([0-9a-f]{40}) (\S+)$/;

const broken = (why: string) => new GitError('invalid', `The repository bundle is broken: ${why}`);

/**
 * Reads the header of a git bundle, version 2 or 3 (gitformat-bundle), and returns the rest as a stream.
 *
 * @throws GitError `invalid`
 */
export const readBundleHeader = async (source: AsyncIterator<Buffer>): Promise<BundleHeader> => {
  const refs: { name: string; oid: string }[] = [];
  let held: Buffer = Buffer.alloc(0);
  let size = 0;

  /** Returns the next line as text, or null at the empty line that ends the header. */
  const nextLine = async (): Promise<string | null> => {
    let end = held.indexOf(0x0a);
    while (end === -1) {
      if (held.length > MAX_LINE_BYTES) throw broken('its header is not readable');
      const step = await source.next();
      if (step.done) throw broken('it ends too early');
      held = held.length === 0 ? step.value : Buffer.concat([held, step.value]);
      end = held.indexOf(0x0a);
    }
    size += end + 1;
    if (size > MAX_HEADER_BYTES || end > MAX_LINE_BYTES) throw broken('its header is too long');
    const line = held.toString('utf8', 0, end);
    held = held.subarray(end + 1);
    return line === '' ? null : line;
  };

  const signature = await nextLine();
  if (signature !== '# v2 git bundle' && signature !== '# v3 git bundle') throw broken('it is not a git bundle');
  for (let line = await nextLine(); line !== null; line = await nextLine()) {
    if (line.startsWith('@')) {
      if (line !== '@object-format=sha1') throw broken('it needs a capability that is not supported');
    } else if (line.startsWith('-')) {
      throw broken('it is incomplete, because it lacks commits that it depends on');
    } else {
      const [, oid, name] = REF_LINE.exec(line) ?? [];
      if (oid === undefined || name === undefined) throw broken('its header is not readable');
      refs.push({ name, oid });
    }
  }
  return { refs, pack: rest(held, source) };
};

async function* rest(held: Buffer, source: AsyncIterator<Buffer>): AsyncGenerator<Buffer> {
  try {
    if (held.length > 0) yield held;
    for (let step = await source.next(); !step.done; step = await source.next()) yield step.value;
  } finally {
    await source.return?.();
  }
}
