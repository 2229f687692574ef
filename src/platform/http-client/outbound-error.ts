export type OutboundErrorKind =
  | 'blocked'
  | 'dns'
  | 'connect'
  | 'tls'
  | 'timeout'
  | 'too_large'
  | 'aborted'
  | 'protocol';

/** A request to another server got no response. The message is safe to show: it names no internal address. */
export class OutboundError extends Error {
  override readonly name = 'OutboundError';
  readonly kind: OutboundErrorKind;

  constructor(kind: OutboundErrorKind, message: string, cause?: unknown) {
    super(message, cause === undefined ? undefined : { cause });
    this.kind = kind;
  }
}

/** Converts an error of undici, net, tls or dns to an OutboundError. Returns an OutboundError unchanged. */
export const toOutboundError = (error: unknown): OutboundError => {
  if (error instanceof OutboundError) return error;
  const code = errorCode(error);
  const [kind, message] = describe(code);
  return new OutboundError(kind, code && kind !== 'timeout' ? `${message} (${code})` : message, error);
};

/** If several addresses were tried, the first failure counts. */
const errorCode = (error: unknown): string => {
  if (error instanceof AggregateError && error.errors.length > 0) return errorCode(error.errors[0]);
  if (error instanceof Error && 'code' in error && typeof error.code === 'string') return error.code;
  return '';
};

const describe = (code: string): [OutboundErrorKind, string] => {
  if (DNS_CODES.has(code)) return ['dns', 'The host name could not be resolved'];
  if (TIMEOUT_CODES.has(code)) return ['timeout', 'The server did not answer in time'];
  if (code === 'UND_ERR_ABORTED' || code === 'ABORT_ERR') return ['aborted', 'The request was aborted'];
  if (code === 'UND_ERR_SOCKET') return ['connect', 'The connection was closed by the server'];
  if (TLS_CODE.test(code)) return ['tls', 'The TLS connection could not be established'];
  if (CONNECT_CODES.has(code)) return ['connect', 'The connection failed'];
  return ['protocol', 'The request could not be completed'];
};

const DNS_CODES = new Set(['ENOTFOUND', 'EAI_AGAIN', 'EAI_FAIL', 'EAI_NODATA', 'ENODATA', 'ESERVFAIL', 'EAI_NONAME']);
const TIMEOUT_CODES = new Set([
  'ETIMEDOUT',
  'UND_ERR_CONNECT_TIMEOUT',
  'UND_ERR_HEADERS_TIMEOUT',
  'UND_ERR_BODY_TIMEOUT',
]);
const CONNECT_CODES = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EHOSTUNREACH',
  'EHOSTDOWN',
  'ENETUNREACH',
  'ENETDOWN',
  'EADDRNOTAVAIL',
  'EPIPE',
  'EACCES',
  'EPERM',
  'EMFILE',
  'ENFILE',
  'UND_ERR_CLOSED',
  'UND_ERR_DESTROYED',
]);
const TLS_CODE =
  /^(ERR_TLS_|ERR_SSL_|CERT_|CRL_|UNABLE_TO_|DEPTH_ZERO_|SELF_SIGNED_|INVALID_CA|HOSTNAME_MISMATCH|EPROTO)/;
