import { randomUUID } from 'node:crypto';
import type { Services } from '#platform/context.ts';
import { type AddressPolicy, OutboundError, type OutboundResponse } from '#platform/http-client/http-client.ts';
import { VERSION } from '#platform/process/version.ts';
import { MAX_BODY_BYTES } from '../model.ts';
import { sign } from '../signing.ts';
import { triggerInfo } from '../triggers.ts';
import type { Target } from './targets.ts';
import { renderTemplate, TemplateError } from './template.ts';

/** One delivery to send. */
export interface Outgoing {
  readonly id: string;
  /** Counts from 1. */
  readonly attempt: number;
  readonly trigger: string;
  readonly chainId: string;
  /** The payload as JSON. */
  readonly body: Buffer;
}

/** The outcome of one attempt, with everything that is logged. Secrets are masked. */
export interface Outcome {
  readonly delivered: boolean;
  /** The hub gave up the attempt itself, so it does not count against the receiver. */
  readonly aborted: boolean;
  /** The receiver answered 410 and wants no more deliveries. */
  readonly gone: boolean;
  readonly retryAfterMs: number;
  readonly durationMs: number;
  readonly status: number | null;
  readonly error: string | null;
  readonly url: string;
  readonly requestHeaders: Readonly<Record<string, string>>;
  /** Null if the payload itself was sent. */
  readonly requestBody: string | null;
  readonly responseHeaders: Readonly<Record<string, string>>;
  readonly responseBody: string | null;
}

const TIMEOUT_MS = 10_000;
/** The limit on the bytes of a response. Less is kept in the log. */
const MAX_ANSWER_BYTES = 128 * 1024;
const KEPT_BODY_CHARS = 8 * 1024;
const KEPT_HEADERS = 50;
const KEPT_HEADER_CHARS = 1_024;
const REDACTED = '[REDACTED]';

type SendServices = Pick<Services, 'http' | 'urls' | 'clock'>;

/** Sends a delivery once (reference: webhooks §1). Errors of the receiver or the network are part of the outcome. */
export const sendDelivery = async (
  services: SendServices,
  target: Target,
  delivery: Outgoing,
  policy: AddressPolicy,
  signal: AbortSignal,
): Promise<Outcome> => {
  const startedAt = performance.now();
  const nowMs = services.clock.now().getTime();
  let headers: SentHeaders = { sent: {}, shown: {} };
  let requestBody: string | null = null;
  const outcome = (rest: Partial<Outcome>): Outcome => ({
    delivered: false,
    aborted: false,
    gone: false,
    retryAfterMs: 0,
    durationMs: Math.round(performance.now() - startedAt),
    status: null,
    error: null,
    url: target.shownUrl,
    requestHeaders: headers.shown,
    requestBody,
    responseHeaders: {},
    responseBody: null,
    ...rest,
  });
  try {
    let body = delivery.body;
    if (target.template !== null) {
      requestBody = '';
      requestBody = renderTemplate(target.template, JSON.parse(delivery.body.toString('utf8')));
      body = Buffer.from(requestBody);
    }
    headers = headersOf(services, target, delivery, body, nowMs);
    if (body.length > MAX_BODY_BYTES) return outcome({ error: 'The body is larger than 25 MB' });
    const response = await services.http.request({
      url: target.url,
      method: 'POST',
      headers: headers.sent,
      body,
      policy,
      timeoutMs: TIMEOUT_MS,
      maxResponseBytes: MAX_ANSWER_BYTES,
      tls: { verify: target.verifyTls },
      signal,
    });
    const { status } = response;
    return outcome({
      delivered: status >= 200 && status < 300 && !response.truncated,
      gone: status === 410,
      retryAfterMs: readRetryAfter(response.headers['retry-after'], nowMs),
      status,
      error: complaintOf(response),
      responseHeaders: keepHeaders(target, response),
      responseBody: mask(target, response.body.toString('utf8')).slice(0, KEPT_BODY_CHARS),
    });
  } catch (error) {
    if (error instanceof TemplateError) return outcome({ error: error.message });
    if (error instanceof OutboundError)
      return outcome({ error: mask(target, error.message), aborted: error.kind === 'aborted' && signal.aborted });
    throw error;
  }
};

const complaintOf = ({ status, truncated }: OutboundResponse): string | null => {
  if (status >= 300 && status < 400) return 'The receiver redirects; redirects are not followed';
  if (status < 200 || status >= 300) return `The receiver answered ${status}`;
  return truncated ? 'The answer is too large' : null;
};

interface SentHeaders {
  readonly sent: Readonly<Record<string, string>>;
  /** The headers for the log, with secrets redacted. */
  readonly shown: Readonly<Record<string, string>>;
}

/** Builds the headers. The hook's own headers cannot replace those of the hub. */
const headersOf = (
  { urls }: SendServices,
  target: Target,
  delivery: Outgoing,
  body: Buffer,
  nowMs: number,
): SentHeaders => {
  const headers: Record<string, string> = {
    'Content-Type': 'application/json',
    'User-Agent': `GitLab/${VERSION}`,
    'X-Gitlab-Event': target.isSystem ? 'System Hook' : (triggerInfo(delivery.trigger)?.header ?? delivery.trigger),
    'X-Gitlab-Event-UUID': delivery.chainId,
    'X-Gitlab-Webhook-UUID': randomUUID(),
    'X-Gitlab-Instance': urls.base,
    'Idempotency-Key': delivery.id,
    'X-Millrace-Attempt': String(delivery.attempt),
  };
  if (target.token !== null) headers['X-Gitlab-Token'] = target.token;
  if (target.signingKey) {
    const { previousKey } = target;
    const keys =
      previousKey && previousKey.untilMs > nowMs ? [target.signingKey, previousKey.key] : [target.signingKey];
    const timestamp = String(Math.floor(nowMs / 1_000));
    headers['webhook-id'] = delivery.id;
    headers['webhook-timestamp'] = timestamp;
    headers['webhook-signature'] = sign(keys, delivery.id, timestamp, body);
  }
  const shown: Record<string, string> = { ...headers };
  if (target.token !== null) shown['X-Gitlab-Token'] = REDACTED;
  if (target.headers.length === 0) return { sent: headers, shown };
  const taken = new Set([...Object.keys(headers).map((name) => name.toLowerCase()), 'x-gitlab-token']);
  for (const { key, value } of target.headers) {
    if (taken.has(key.toLowerCase())) continue;
    headers[key] = value;
    shown[key] = REDACTED;
  }
  return { sent: headers, shown };
};

const keepHeaders = (target: Target, { headers }: OutboundResponse): Record<string, string> => {
  const kept: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers).slice(0, KEPT_HEADERS)) {
    if (value === undefined) continue;
    kept[name] = mask(target, typeof value === 'string' ? value : value.join(', ')).slice(0, KEPT_HEADER_CHARS);
  }
  return kept;
};

/** Masks secrets, because a receiver may echo what it got. */
const mask = (target: Target, text: string): string => {
  let masked = text;
  for (const secret of target.secrets) if (masked.includes(secret)) masked = masked.replaceAll(secret, REDACTED);
  return masked;
};

const MAX_RETRY_AFTER_MS = 24 * 3_600_000;

/** Parses seconds or a date. Returns milliseconds, or 0 for anything else. */
const readRetryAfter = (header: string | string[] | undefined, nowMs: number): number => {
  if (typeof header !== 'string') return 0;
  const ms = /^\s*\d{1,9}\s*$/.test(header) ? Number(header) * 1_000 : Date.parse(header) - nowMs;
  return ms > 0 ? Math.min(ms, MAX_RETRY_AFTER_MS) : 0;
};

/** Returns the outcome of an attempt that failed before anything was sent. */
export const unsent = (error: Error): Outcome => ({
  delivered: false,
  aborted: false,
  gone: false,
  retryAfterMs: 0,
  durationMs: 0,
  status: null,
  error: error.message,
  url: '',
  requestHeaders: {},
  requestBody: null,
  responseHeaders: {},
  responseBody: null,
});
