/** As long as a URL may be. */
const MAX_LENGTH = 16_384;

/**
 * A path of this hub that somebody else proposed, to be led on to: path and query, normalised. Null for whatever a
 * browser could take for another host: schemes, `//host`, backslashes, characters that it drops.
 */
export const localPath = (proposed: string | null | undefined): string | null => {
  if (!proposed?.startsWith('/') || proposed.length > MAX_LENGTH || /[\\\p{Cc}\s]/u.test(proposed)) return null;
  const url = URL.parse(proposed, 'http://hub.invalid');
  if (url?.host !== 'hub.invalid' || url.username !== '' || url.password !== '') return null;
  // `/.//host` is `//host` once it is normalised.
  return url.pathname.startsWith('//') ? null : url.pathname + url.search + url.hash;
};
