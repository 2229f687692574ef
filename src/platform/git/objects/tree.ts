import type { TreeEntry } from '../objects.ts';

/**
 * An entry of a tree object (gitformat-pack, "tree"). `name` holds one character for each byte of the name, so that
 * names in any encoding survive: see `nameOf` and `textOf`.
 */
export interface RawEntry {
  readonly mode: string;
  readonly name: string;
  readonly oid: string;
}

export const TREE_MODE = '40000';
/** The id of the empty tree. */
export const EMPTY_TREE = '4b825dc642cb6eb9a060e54bf8d69288fbee4904';
const OID_BYTES = 20;

/** Encodes a name given as text to its bytes. */
export const nameOf = (text: string): string => Buffer.from(text).toString('latin1');
/** Decodes a name to text. */
export const textOf = (name: string): string => Buffer.from(name, 'latin1').toString('utf8');

export const isTree = ({ mode }: Pick<RawEntry, 'mode'>): boolean => Number.parseInt(mode, 8) === 0o40000;

export const typeOf = (entry: Pick<RawEntry, 'mode'>): TreeEntry['type'] => {
  if (isTree(entry)) return 'tree';
  return entry.mode === '160000' ? 'commit' : 'blob';
};

/** Returns the mode with six digits, as git prints it. Old objects have shorter modes. */
export const canonicalMode = (mode: string): string => mode.padStart(6, '0');

/** Parses the content of a tree object with SHA-1 ids. */
export const parseTree = (content: Buffer): RawEntry[] => {
  const entries: RawEntry[] = [];
  for (let at = 0; at < content.length; ) {
    const space = content.indexOf(0x20, at);
    const end = content.indexOf(0, space);
    if (space < 0 || end < 0) break;
    entries.push({
      mode: content.toString('latin1', at, space),
      name: content.toString('latin1', space + 1, end),
      oid: content.toString('hex', end + 1, end + 1 + OID_BYTES),
    });
    at = end + 1 + OID_BYTES;
  }
  return entries;
};

/** Returns the sort key of an entry: git sorts a folder name as if it ended with a slash. */
export const sortKey = (entry: RawEntry): string => (isTree(entry) ? `${entry.name}/` : entry.name);

/** Returns the content of a tree object with these entries, given in any order. */
export const formatTree = (entries: Iterable<RawEntry>): Buffer => {
  const sorted = [...entries]
    .map((entry) => ({ entry, key: sortKey(entry) }))
    .sort((left, right) => (left.key < right.key ? -1 : 1));
  return Buffer.concat(
    sorted.flatMap(({ entry: { mode, name, oid } }) => [
      Buffer.from(`${mode} ${name}\0`, 'latin1'),
      Buffer.from(oid, 'hex'),
    ]),
  );
};
