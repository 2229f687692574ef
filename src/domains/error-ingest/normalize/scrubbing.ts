import { Cache } from '#platform/cache.ts';

/** Replaces what must not be stored (reference: error-tracking §6). */
export const FILTERED = '[Filtered]';

const SECRET_PARTS = [
  ...['password', 'secret', 'passwd', 'api_key', 'apikey', 'auth', 'credentials', 'mysql_pwd'],
  ...['private_key', 'privatekey', 'token'],
];
const SECRET_NAMES = new Set(['otp', 'two_factor', 'cookie', 'set_cookie']);
const knownNames = new Cache<string, boolean>({ name: 'secret names of error reports', limit: 5_000 });

/** Whether values of this name are secret, in any notation. */
export const isSecretName = (name: string): boolean => {
  let secret = knownNames.get(name);
  if (secret !== undefined) return secret;
  const plain = name.slice(0, 200).toLowerCase().replaceAll('-', '_');
  secret = SECRET_NAMES.has(plain) || SECRET_PARTS.some((part) => plain.includes(part));
  knownNames.set(name, secret);
  return secret;
};

const SECRET_COOKIE = /^(?:session|sessionid|phpsessid|symfony)$|csrf|xsrf/i;

export const isSecretCookie = (name: string): boolean => SECRET_COOKIE.test(name) || isSecretName(name);

/** The countries that have IBANs. Without them, many identifiers would look like one. */
const IBAN_COUNTRIES =
  'A[DELTZ]|B[AEGHRY]|C[HRYZ]|D[EKO]|E[EGS]|F[IOR]|G[BEILRT]|H[RU]|I[ELQST]|JO|K[WZ]|L[BCITUVY]|M[CDEKRTU]|N[LO]|P[KLST]|QA|R[OS]|S[ACDEIKMTV]|T[LNR]|UA|V[AG]|XK';

/** Each pattern takes time linear in the text, because its repetitions are bounded or cannot overlap. */
const SECRET_VALUES: readonly (readonly [RegExp, string])[] = [
  [/-----BEGIN [A-Z ]{1,40}-----[\s\S]*?(?:-----END [A-Z ]{1,40}-----|$)/g, FILTERED],
  // Words, as in "basic authentication", have no digits and no capital letters inside.
  [/\b([Bb]earer|BEARER|[Bb]asic|BASIC) {1,4}(?=[\w.~+/-]*[\d=]|[\w.~+/-]+[A-Z])[\w.~+/=-]{8,}/g, `$1 ${FILTERED}`],
  [/\b([a-z][a-z0-9+.-]{0,20}:\/\/)[^\s/?#@:]{0,200}:[^\s/?#@]{1,200}@/gi, `$1${FILTERED}@`],
  [new RegExp(`\\b(?:${IBAN_COUNTRIES})\\d\\d(?: ?[A-Z0-9]{4}){3,7}(?: ?[A-Z0-9]{1,3})?\\b`, 'g'), FILTERED],
  [/(?<![\w.-])(?:3[47]\d\d|4\d{3}|5[1-5]\d\d|6011|65\d\d)(?:[ -]?\d){11,12}(?![\w.-])/g, FILTERED],
  [/(?<![\w-])(?!000|666|9\d\d)\d{3}-(?!00)\d\d-(?!0000)\d{4}(?![\w-])/g, FILTERED],
];
/** Most texts have nothing that any of the patterns could match. */
const SUSPICIOUS = /\d{3}|:\/\/|-----BEGIN|bearer |basic /i;

/** Replaces secrets inside a text: keys, credentials in URLs, numbers of cards, bank accounts and persons. */
export const scrubText = (text: string): string => {
  if (!SUSPICIOUS.test(text)) return text;
  let scrubbed = text;
  for (const [pattern, replacement] of SECRET_VALUES) scrubbed = scrubbed.replace(pattern, replacement);
  return scrubbed;
};

/** Scrubs the values of a query string by their names. */
export const scrubQuery = (query: string): string =>
  scrubText(
    query
      .split('&')
      .map((pair) => {
        const [name = ''] = pair.split('=', 1);
        return pair.includes('=') && isSecretName(name) ? `${name}=${FILTERED}` : pair;
      })
      .join('&'),
  );

/**
 * Scrubs the values in JSON that cannot be parsed, because it was cut, by their names. The text ends at a secret object
 * or list, because where that ends is unknown.
 */
export const scrubJsonText = (text: string): string => {
  const scrubbed = text.replaceAll(SCALAR_MEMBER, (member, name: string) =>
    isSecretName(name) ? `"${name}":"${FILTERED}"` : member,
  );
  for (const { 1: name = '', index } of scrubbed.matchAll(NESTED_MEMBER)) {
    if (isSecretName(name)) return `${scrubbed.slice(0, index)}"${name}":"${FILTERED}"`;
  }
  return scrubbed;
};

const NESTED_MEMBER = /"([^"\\]{1,200})"\s{0,10}:\s{0,10}[[{]/g;
/** A string as value ends at its quote or at the end of the text, so matching is linear. */
const SCALAR_MEMBER = /"([^"\\]{1,200})"\s{0,10}:\s{0,10}(?:"[^"\\]*(?:\\.[^"\\]*)*(?:"|\\?$)|[^\s",[{}\]]+)/gs;

/** Scrubs a URL: credentials and the query. */
export const scrubUrl = (url: string): string => {
  const start = url.indexOf('?');
  return start < 0 ? scrubText(url) : `${scrubText(url.slice(0, start))}?${scrubQuery(url.slice(start + 1))}`;
};
