import { createHash } from 'node:crypto';
import { deflateSync } from 'node:zlib';

// Hand-made packs: small inputs that cost git a lot.

/** An object as stored in a pack, with its object id. */
export interface PackedObject {
  readonly oid: string;
  readonly bytes: Buffer;
}

const TYPES = { commit: 1, tree: 2, blob: 3, ref_delta: 7 } as const;
const COPY_64_KIB = 0x80;
const COPIED_BYTES = 64 * 1024;

export const packed = (type: 'commit' | 'tree' | 'blob', content: Buffer): PackedObject => ({
  oid: createHash('sha1').update(`${type} ${content.length}\0`).update(content).digest('hex'),
  bytes: Buffer.concat([header(TYPES[type], content.length), deflateSync(content)]),
});

export const packOf = (objects: readonly PackedObject[]): Buffer => {
  const head = Buffer.from('PACK\0\0\0\u0002\0\0\0\0', 'latin1');
  head.writeUInt32BE(objects.length, 8);
  const pack = Buffer.concat([head, ...objects.map(({ bytes }) => bytes)]);
  return Buffer.concat([pack, createHash('sha1').update(pack).digest()]);
};

/** Returns a commit with one file of `mebibytes` MiB in a few hundred bytes: a delta that repeats 64 KiB. */
export const commitOfLargeDelta = (mebibytes: number): { readonly oid: string; readonly pack: Buffer } => {
  const base = Buffer.alloc(COPIED_BYTES, 'a');
  const size = mebibytes * 1024 * 1024;
  const copies = size / COPIED_BYTES;
  const hash = createHash('sha1').update(`blob ${size}\0`);
  for (let at = 0; at < copies; at++) hash.update(base);
  const first = packed('blob', base);
  const delta = Buffer.concat([number(COPIED_BYTES), number(size), Buffer.alloc(copies, COPY_64_KIB)]);
  const large: PackedObject = {
    oid: hash.digest('hex'),
    bytes: Buffer.concat([header(TYPES.ref_delta, delta.length), Buffer.from(first.oid, 'hex'), deflateSync(delta)]),
  };
  const tree = packed('tree', treeEntry('100644', 'large', large.oid));
  const commit = commitOf(tree.oid);
  return { oid: commit.oid, pack: packOf([first, large, tree, commit]) };
};

/** Returns a commit of 10 to the power of `depth` files, in nested folders of ten entries each. */
export const commitOfManyFiles = (
  depth: number,
): { readonly oid: string; readonly pack: Buffer; readonly tree: string } => {
  const objects = [packed('blob', Buffer.alloc(0))];
  for (let level = 0; level < depth; level++) {
    const below = objects.at(-1)?.oid ?? '';
    const mode = level === 0 ? '100644' : '40000';
    const entries = Array.from({ length: 10 }, (_, index) => treeEntry(mode, String(index), below));
    objects.push(packed('tree', Buffer.concat(entries)));
  }
  const tree = objects.at(-1)?.oid ?? '';
  const commit = commitOf(tree);
  return { oid: commit.oid, pack: packOf([...objects, commit]), tree };
};

export const commitOf = (tree: string, parent?: string): PackedObject => {
  const ada = 'Ada <ada@example.com> 1700000000 +0000';
  const parents = parent === undefined ? '' : `parent ${parent}\n`;
  return packed('commit', Buffer.from(`tree ${tree}\n${parents}author ${ada}\ncommitter ${ada}\n\nMany\n`));
};

export const treeEntry = (mode: string, name: string, oid: string): Buffer =>
  Buffer.concat([Buffer.from(`${mode} ${name}\0`), Buffer.from(oid, 'hex')]);

/** Returns the body of a push that creates a branch. */
export const pushOf = (ref: string, oid: string, pack: Buffer): Buffer => {
  const command = `${'0'.repeat(40)} ${oid} ${ref}\0 report-status side-band-64k`;
  const length = (command.length + 4).toString(16).padStart(4, '0');
  return Buffer.concat([Buffer.from(`${length}${command}0000`), pack]);
};

/** Returns a bundle with one branch, `main`. */
export const bundleOf = (oid: string, pack: Buffer): Buffer =>
  Buffer.concat([Buffer.from(`# v2 git bundle\n${oid} refs/heads/main\n\n`), pack]);

/** Returns the type and size of an object in a pack (gitformat-pack). */
const header = (type: number, size: number): Buffer => {
  const bytes = [(type << 4) | (size & 15)];
  for (let rest = Math.floor(size / 16); rest > 0; rest = Math.floor(rest / 128)) {
    bytes[bytes.length - 1] = (bytes.at(-1) ?? 0) | 0x80;
    bytes.push(rest & 0x7f);
  }
  return Buffer.from(bytes);
};

/** Returns a size at the start of a delta. */
const number = (size: number): Buffer => {
  const bytes: number[] = [];
  for (let rest = size; ; rest = Math.floor(rest / 128)) {
    if (rest < 128) return Buffer.from([...bytes, rest]);
    bytes.push((rest & 0x7f) | 0x80);
  }
};
