/**
 * May a user set this header on a request that the hub sends? False for names and values that would break the message
 * apart (CR, LF, NUL, non-Latin text) and for the headers that HTTP itself needs to keep right.
 */
export const validHeader = (name: string, value: string): boolean =>
  TOKEN.test(name) && VALUE.test(value) && !RESERVED.has(name.toLowerCase());

/** What may go along when a redirect leads to another origin; everything else could be a credential. */
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
