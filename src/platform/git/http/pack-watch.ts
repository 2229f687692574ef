/** The start of a pack, in every protocol version, with or without a side band. */
const BEGINNING = Buffer.from('PACK\0\0\0\x02', 'latin1');
/** Progress messages precede the pack, but never more of them than this. */
const MAX_LOOKED_AT = 4 * 1024 * 1024;

/** Watches a response for a pack, to find out if it sent objects or only the names of refs. */
export const createPackWatch = () => {
  let seen = false;
  let lookedAt = 0;
  let rest: Buffer = Buffer.alloc(0);
  return {
    push: (chunk: Buffer): void => {
      if (seen || lookedAt > MAX_LOOKED_AT) return;
      lookedAt += chunk.length;
      const window = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
      seen = window.includes(BEGINNING);
      rest = window.subarray(Math.max(0, window.length - BEGINNING.length + 1));
    },
    seen: (): boolean => seen,
  };
};
