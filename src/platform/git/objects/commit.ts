import type { SignatureKind } from '../history.ts';
import type { Commit } from '../objects.ts';

interface Signature {
  readonly name: string;
  readonly email: string;
  readonly date: string;
}

/** Parses a raw commit object. Invalid parts become an empty text or the epoch, never an error. */
export const parseCommit = (id: string, raw: Buffer): Commit => {
  const end = raw.indexOf('\n\n');
  const head = end === -1 ? raw : raw.subarray(0, end);
  const body = end === -1 ? Buffer.alloc(0) : raw.subarray(end + 2);
  const encoding = /^encoding (.+)$/m.exec(head.toString('latin1'))?.[1];
  const decode = decoderFor(encoding);
  let author = parseSignature('');
  let committer = author;
  for (const line of decode(head).split('\n')) {
    if (line.startsWith('author ')) author = parseSignature(line.slice(7));
    else if (line.startsWith('committer ')) committer = parseSignature(line.slice(10));
  }
  const message = decode(body);
  const trailers = parseTrailers(message);
  return {
    id,
    short_id: id.slice(0, 8),
    parent_ids: parentsIn(head),
    title: message.trimStart().split('\n', 1)[0]?.trimEnd() ?? '',
    message,
    author_name: author.name,
    author_email: author.email,
    authored_date: author.date,
    committer_name: committer.name,
    committer_email: committer.email,
    committed_date: committer.date,
    trailers: Object.fromEntries(trailers),
    extended_trailers: valuesByKey(trailers),
  };
};

/**
 * Returns the parents, which only the lines right after the tree name, whatever the encoding of the commit. Later lines
 * of that kind mean nothing to git.
 */
const parentsIn = (head: Buffer): string[] => {
  const lines = head.toString('latin1').split('\n').slice(1);
  const end = lines.findIndex((line) => !line.startsWith('parent '));
  return lines.slice(0, end === -1 ? lines.length : end).map((line) => line.slice('parent '.length));
};

/** Returns the kind of signature in a raw commit object, or null if there is none. */
export const signatureIn = (raw: Buffer): SignatureKind | null => {
  const end = raw.indexOf('\n\n');
  const head = raw.toString('latin1', 0, end === -1 ? raw.length : end);
  const [, begins] = /^gpgsig(?:-sha256)? (\S.*)$/m.exec(head) ?? [];
  if (begins === undefined) return null;
  if (begins.includes('BEGIN SSH')) return 'SSH';
  return begins.includes('BEGIN PGP') ? 'PGP' : 'X509';
};

const decoderFor = (encoding: string | undefined): ((bytes: Buffer) => string) => {
  const decoder = createDecoder(encoding ?? 'utf-8') ?? new TextDecoder('utf-8', { ignoreBOM: true });
  // Postgres text cannot contain NUL.
  return (bytes) => decoder.decode(bytes).replaceAll('\0', '\ufffd');
};

const createDecoder = (encoding: string) => {
  try {
    return new TextDecoder(encoding, { ignoreBOM: true });
  } catch {
    return null; // an unknown encoding
  }
};

const parseSignature = (text: string): Signature => {
  const match = /^(.*?) ?<([^>]*)>(?: (-?\d+)(?: ([+-]\d{4}))?)?/.exec(text);
  return {
    name: match?.[1] ?? '',
    email: match?.[2] ?? '',
    date: isoWithOffset(Number(match?.[3] ?? 0), match?.[4] ?? '+0000'),
  };
};

/** `1706688000`, `+0200` → `2024-01-31T10:00:00.000+02:00`. An absurd time becomes the epoch, an absurd offset UTC. */
const isoWithOffset = (epochSeconds: number, offset: string): string => {
  const hours = Number(offset.slice(1, 3));
  const minutes = Number(offset.slice(3, 5));
  const sane = hours <= 14 && minutes < 60;
  const shiftSeconds = sane ? (offset.startsWith('-') ? -1 : 1) * (hours * 3600 + minutes * 60) : 0;
  const local = new Date((epochSeconds + shiftSeconds) * 1000);
  const year = local.getUTCFullYear();
  if (Number.isNaN(year) || year < 0 || year > 9999) return '1970-01-01T00:00:00.000+00:00';
  const zone = shiftSeconds === 0 ? '+00:00' : `${offset.slice(0, 3)}:${offset.slice(3, 5)}`;
  return local.toISOString().replace('Z', zone);
};

const TRAILER = /^([A-Za-z0-9][A-Za-z0-9-]*)\s*:\s+(.*)$/;

/**
 * Returns the `Key: value` lines that end a message, as in git-interpret-trailers: a last paragraph of only such lines.
 */
const parseTrailers = (message: string): [string, string][] => {
  const paragraphs = message.trimEnd().split(/\n[ \t]*\n/);
  const last = paragraphs.length > 1 ? paragraphs.at(-1) : undefined;
  const entries: [string, string][] = [];
  for (const line of last?.split('\n') ?? []) {
    const match = TRAILER.exec(line);
    const previous = entries.at(-1);
    if (match) entries.push([match[1] ?? '', (match[2] ?? '').trim()]);
    else if (previous && /^\s/.test(line)) previous[1] += ` ${line.trim()}`;
    else return [];
  }
  return entries;
};

const valuesByKey = (entries: readonly (readonly [string, string])[]): Record<string, string[]> => {
  const values = new Map<string, string[]>();
  for (const [key, value] of entries) values.set(key, [...(values.get(key) ?? []), value]);
  return Object.fromEntries(values);
};
