import { promisify } from 'node:util';
import { constants, zstdCompressSync, zstdDecompress } from 'node:zlib';
import type { NormalizedEvent } from '../event.ts';

/** The columns of an event that its payload leaves out. */
type Columns = 'project_id' | 'received_at' | 'event_id';

/** The content of `error_events.payload`. */
export type StoredEvent = Omit<NormalizedEvent, Columns>;

/** The fastest level. A higher one saves few bytes and costs the digest its speed. */
const params = { [constants.ZSTD_c_compressionLevel]: 1 };
const decompress = promisify(zstdDecompress);

/** Returns a copy that owns its memory, so that it can move to another thread. */
export const packEvent = ({
  project_id: _,
  event_id: __,
  received_at: ___,
  ...stored
}: NormalizedEvent): Uint8Array<ArrayBuffer> => {
  const json = Buffer.from(JSON.stringify(stored satisfies StoredEvent));
  // With the size known, the compressor allocates less.
  return new Uint8Array(zstdCompressSync(json, { params, pledgedSrcSize: json.length }));
};

/** @throws Error if the payload is damaged */
export const unpackEvent = async (payload: Buffer): Promise<StoredEvent> =>
  JSON.parse((await decompress(payload)).toString());
