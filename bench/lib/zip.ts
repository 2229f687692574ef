import { randomBytes } from 'node:crypto';
import { open } from 'node:fs/promises';
import { crc32 } from 'node:zlib';

/** Where the bytes of an entry start in the archive. */
interface Place {
  readonly name: string;
  readonly offset: number;
}

/**
 * Writes a zip of `entries` uncompressed files of `size` random bytes each. Returns its length and some of its entries.
 * It has at most 65,535 entries and 4 GB, because it is not a Zip64.
 */
export const writeZip = async (
  path: string,
  { entries, size }: { readonly entries: number; readonly size: number },
): Promise<{ readonly bytes: number; readonly places: readonly Place[] }> => {
  const file = await open(path, 'w');
  try {
    const content = randomBytes(size);
    const places: Place[] = [];
    let offset = 0;
    const directory: Buffer[] = [];
    let chunks: Buffer[] = [];
    const flush = async () => {
      await file.write(Buffer.concat(chunks));
      chunks = [];
    };
    for (let i = 0; i < entries; i++) {
      // Each file differs, and so does its checksum.
      content.writeUInt32LE(i, 0);
      const name = `reports/part-${i % 100}/file-${i}.txt`;
      const common = commonHeader(crc32(content), size, name.length);
      chunks.push(SIGNATURES.local, common, Buffer.from(name), Buffer.from(content));
      const header = Buffer.alloc(14);
      header.writeUInt32LE(offset, 10);
      directory.push(SIGNATURES.central, VERSION, common, header, Buffer.from(name));
      const start = offset + 4 + common.length + name.length;
      if (i % 100 === 0) places.push({ name, offset: start });
      offset = start + size;
      if (i % 1_000 === 999) await flush();
    }
    const central = Buffer.concat(directory);
    const end = Buffer.alloc(22);
    SIGNATURES.end.copy(end);
    end.writeUInt16LE(entries, 8);
    end.writeUInt16LE(entries, 10);
    end.writeUInt32LE(central.length, 12);
    end.writeUInt32LE(offset, 16);
    chunks.push(central, end);
    await flush();
    return { bytes: offset + central.length + end.length, places };
  } finally {
    await file.close();
  }
};

const SIGNATURES = {
  local: Buffer.from('PK\x03\x04'),
  central: Buffer.from('PK\x01\x02'),
  end: Buffer.from('PK\x05\x06'),
};
/** Made on Unix, version 2.0. */
const VERSION = Buffer.from([20, 3]);
const DOS_DATE = 0x5c21;

/** The fields that the header of an entry and its line of the directory share, from the version on. */
const commonHeader = (crc: number, size: number, nameLength: number): Buffer => {
  const header = Buffer.alloc(26);
  header.writeUInt16LE(20, 0);
  header.writeUInt16LE(DOS_DATE, 8);
  header.writeUInt32LE(crc, 10);
  header.writeUInt32LE(size, 14);
  header.writeUInt32LE(size, 18);
  header.writeUInt16LE(nameLength, 22);
  return header;
};
