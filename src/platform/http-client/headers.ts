/**
 * Returns true if users may set this header on a request that the hub sends. Returns false for names and values that
 * would break the message framing (CR, LF, NUL, non-Latin text), and for headers that HTTP itself controls.
 */
export const validHeader = (name: string, value: string): boolean =>
  TOKEN.test(name) && VALUE.test(value) && !RESERVED.has(name.toLowerCase());

/** Returns true if the header may follow a redirect to another origin. Any other header could be a credential. */
export const isHarmlessHeader = (name: string): boolean => HARMLESS.has(name.toLowerCase());

const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,255}$/;
const VALUE = /^[\t\x20-\x7e\x80-\xff]{0,8192}$/;

const RESERVED = new Set([
  'host',
  'content-length',
  'transfer-encoding',
  'connection',
  'keep-alive',
  'proxy-connection',
  'proxy-authorization',
  'proxy-authenticate',
  'upgrade',
  'te',
  'trailer',
  'expect',
  'http2-settings',
]);

const HARMLESS = new Set(['accept', 'accept-encoding', 'accept-language', 'user-agent', 'content-type']);
