/** How a pack begins, whatever version of the protocol carries it, in a band or bare. */
const BEGINNING = Buffer.from('PACK\0\0\0\x02', 'latin1');
/** Messages of progress come before it; more of them than this there never are. */
const MAX_LOOKED_AT = 4 * 1024 * 1024;

/** Watches an answer for a pack going by: whether objects were sent, or no more than names of refs. */
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
