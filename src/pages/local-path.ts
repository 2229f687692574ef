/** Maximum length of a URL. */
const MAX_LENGTH = 16_384;

/**
 * Normalises an untrusted redirect target to a path and query of this hub. Returns null for anything that a browser
 * could read as another host: schemes, `//host`, backslashes, and characters that browsers drop.
 */
export const localPath = (proposed: string | null | undefined): string | null => {
  if (!proposed?.startsWith('/') || proposed.length > MAX_LENGTH || /[\\\p{Cc}\s]/u.test(proposed)) return null;
  const url = URL.parse(proposed, 'http://hub.invalid');
  if (url?.host !== 'hub.invalid' || url.username !== '' || url.password !== '') return null;
  // `/.//host` normalises to `//host`.
  return url.pathname.startsWith('//') ? null : url.pathname + url.search + url.hash;
};
