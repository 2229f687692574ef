import type { Readable } from 'node:stream';
import { GitError } from '../git-error.ts';
import { FLUSH, PacketSplitter, packet } from '../http/pkt-line.ts';
import type { Runner } from '../process/runner.ts';
import { ZERO_OID } from '../ref-names.ts';
import type { Git } from '../types.ts';
import { buildAside, chooseRefs, type NamedObject, takePack } from './fresh-repository.ts';

const TIMEOUT_MS = 2 * 60 * 60_000;
const IDLE_MS = 2 * 60_000;
const MAX_ADVERTISED_BYTES = 64 * 1024 * 1024;
/** Limit for terminal messages. A normal exchange has a few kilobytes. */
const MAX_SAID_BYTES = 16 * 1024 * 1024;
const OID = /^[0-9a-f]{40}$/;
/**
 * Clones over smart HTTP in protocol version 1, which every server supports (gitprotocol-http). The caller sends the
 * requests, so that they pass the same address checks as all others. git itself opens no connection; it only receives
 * the pack and checks it.
 */
export const createRemoteClone = (
  runner: Runner,
  forget: (path: string) => void,
  git: Pick<Git, 'init'>,
): Pick<Git, 'cloneRemote'> => ({
  async cloneRemote(path, remote, options = {}) {
    const {
      signal,
      timeoutMs = TIMEOUT_MS,
      idleTimeoutMs = IDLE_MS,
      maxInputBytes = 0,
      maxFiles,
      onProgress,
    } = options;
    return buildAside(runner, forget, path, async (fresh) => {
      const offered = await readAdvertisement(watched(await remote.advertisement(), idleTimeoutMs));
      const chosen = chooseRefs(offered.refs, offered.head);
      await git.init(fresh, chosen.defaultBranch ?? 'main');
      if (chosen.refs.length === 0) return chosen.summary;
      const answer = await remote.request(wants(chosen.refs, offered.capabilities));
      const pack = unpackAnswer(watched(answer, idleTimeoutMs), onProgress);
      const limits = { maxBytes: maxInputBytes, maxFiles, signal, timeoutMs };
      await takePack(runner, fresh, pack, chosen.refs, limits, 'The repository');
      return chosen.summary;
    });
  },
});

interface Advertisement {
  readonly refs: readonly NamedObject[];
  /** The branch that HEAD names. */
  readonly head: string | null;
  readonly capabilities: ReadonlySet<string>;
}

const foreign = (why: string) => new GitError('invalid', `The server's response is not in the git protocol: ${why}`);

const readAdvertisement = async (source: AsyncIterable<Buffer>): Promise<Advertisement> => {
  const refs: NamedObject[] = [];
  let capabilities: ReadonlySet<string> = new Set();
  let size = 0;
  let lines = 0;
  let isAnnounced = false;
  for await (const payload of packets(source, (bytes) => {
    size += bytes;
    if (size > MAX_ADVERTISED_BYTES) throw new GitError('too_large', 'The repository has too many branches and tags');
  })) {
    if (payload === 'flush') continue;
    const line = payload.toString('utf8').replace(/\n$/, '');
    if (lines++ === 0 && line === '# service=git-upload-pack') {
      isAnnounced = true;
      continue;
    }
    if (line.startsWith('ERR ')) throw refusedBy(line.slice(4));
    if (line.startsWith('shallow '))
      throw new GitError('invalid', 'The remote repository is shallow: it lacks history');
    const [ref = '', listed] = line.split('\0');
    if (listed !== undefined) capabilities = new Set(listed.split(' ').filter((each) => each !== ''));
    const oid = ref.slice(0, 40);
    if (/^[0-9a-f]{64} /.test(ref))
      throw new GitError('invalid', 'Repositories with SHA-256 objects cannot be imported');
    if (!OID.test(oid) || ref[40] !== ' ') throw foreign('a line is not a reference');
    const name = ref.slice(41);
    // Skips the placeholder of an empty repository and the objects that annotated tags point at.
    if (oid !== ZERO_OID && !name.endsWith('^{}')) refs.push({ name, oid });
  }
  // For a repository without refs, older servers send nothing more.
  if (isAnnounced && lines === 1) return { refs, head: null, capabilities };
  if (capabilities.size === 0) throw foreign('it offers no references');
  if (capabilities.has('object-format=sha256'))
    throw new GitError('invalid', 'Repositories with SHA-256 objects cannot be imported');
  if (!capabilities.has('side-band-64k')) throw foreign('it cannot send packs over a side band');
  const symref = [...capabilities].find((each) => each.startsWith('symref=HEAD:refs/heads/'));
  return { refs, head: symref?.slice('symref=HEAD:refs/heads/'.length) ?? null, capabilities };
};

/** Requests all refs, without having any object. */
const wants = (refs: readonly NamedObject[], offered: ReadonlySet<string>): Buffer => {
  const used = ['side-band-64k', 'ofs-delta'].filter((each) => offered.has(each)).join(' ');
  const oids = [...new Set(refs.map(({ oid }) => oid))];
  return Buffer.concat([
    ...oids.map((oid, index) => packet(`want ${oid}${index === 0 ? ` ${used}` : ''}\n`)),
    FLUSH,
    packet('done\n'),
  ]);
};

/** Yields the bytes of the pack. Terminal messages only show that the server is alive, and their total is limited. */
async function* unpackAnswer(
  source: AsyncIterable<Buffer>,
  onProgress: ((bytes: number) => void) | undefined,
): AsyncGenerator<Buffer> {
  let bytes = 0;
  let said = 0;
  let ended = false;
  for await (const payload of packets(source)) {
    if (payload === 'flush') {
      ended = true;
      continue;
    }
    const text = payload.length < 1_024 ? payload.toString('utf8') : '';
    if (text.startsWith('ERR ')) throw refusedBy(text.slice(4));
    if (bytes === 0 && /^(?:NAK|ACK [0-9a-f]{40})\n?$/.test(text)) continue;
    const band = payload[0];
    if (band === 1) {
      const part = payload.subarray(1);
      bytes += part.length;
      onProgress?.(bytes);
      if (part.length > 0) yield part;
    } else if (band === 3) throw refusedBy(payload.toString('utf8', 1, 1_024));
    else if (band !== 2) throw foreign('it uses an unknown side band');
    else {
      said += payload.length;
      if (said > MAX_SAID_BYTES) throw foreign('it sends too many messages');
    }
  }
  if (!ended) throw foreign('it ends too early');
}

async function* packets(
  source: AsyncIterable<Buffer>,
  onBytes?: (bytes: number) => void,
): AsyncGenerator<Buffer | 'flush'> {
  const splitter = new PacketSplitter();
  for await (const chunk of source) {
    onBytes?.(chunk.length);
    splitter.push(chunk);
    for (let next = nextOf(splitter); next !== null; next = nextOf(splitter)) yield next;
  }
  if (splitter.rest().length > 0) throw foreign('it ends too early');
}

const nextOf = (splitter: PacketSplitter): Buffer | 'flush' | null => {
  try {
    return splitter.next();
  } catch (error) {
    throw error instanceof GitError ? foreign('it contains other data') : error;
  }
};

/** Creates an error with the message of the server, reduced to one short plain line. */
const refusedBy = (text: string) => {
  const plain = text
    .replace(/[^\p{L}\p{N}\p{P}\p{S}]+/gu, ' ')
    .trim()
    .slice(0, 200);
  return new GitError('invalid', `The server refused: ${plain}`);
};

/** Fails if nothing arrives for `idleMs`. */
async function* watched(source: Readable, idleMs: number): AsyncGenerator<Buffer> {
  const onIdle = () => source.destroy(new GitError('timeout', 'The server stopped sending data'));
  let timer = setTimeout(onIdle, idleMs);
  try {
    for await (const chunk of source) {
      // Our own processing time does not count as the server's.
      clearTimeout(timer);
      if (Buffer.isBuffer(chunk)) yield chunk;
      timer = setTimeout(onIdle, idleMs);
    }
  } finally {
    clearTimeout(timer);
    source.destroy();
  }
}
