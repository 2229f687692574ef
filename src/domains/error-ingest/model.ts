/** How a body was sent. The names are those of `Content-Encoding`. */
export const ENCODINGS = ['identity', 'gzip', 'deflate', 'br', 'zstd'] as const;
export type Encoding = (typeof ENCODINGS)[number];

/** `envelope`: a header and items. `event`: one event as JSON, as the older endpoint takes it. */
export type Form = 'envelope' | 'event';

export const LINE_FEED = 10;
const MEBIBYTE = 1024 * 1024;

/** Limits for a body (reference: error-tracking §5). */
export const MAX_BODY_BYTES = 20 * MEBIBYTE;
export const MAX_UNPACKED_BYTES = 100 * MEBIBYTE;
export const MAX_EVENT_BYTES = MEBIBYTE;
/** Bodies up to these sizes are read as a whole. Larger ones are streamed. */
export const WHOLE_BODY_BYTES = 256 * 1024;
export const WHOLE_UNPACKED_BYTES = 2 * MEBIBYTE;

/** An envelope of an application, as it is stored until it is digested. */
export interface Arrival {
  readonly project_id: number;
  readonly key_id: number;
  /** 32 hex digits. Null if it has neither an event nor feedback with an id. */
  readonly event_id: string | null;
  readonly form: Form;
  readonly encoding: Encoding;
  /** The size when it is unpacked, in bytes. */
  readonly size: number;
  readonly address: string;
  readonly body: readonly Buffer[];
}

/** The way in which the digest treats the items of a type. */
export interface ItemRule {
  readonly maxBytes: number;
  readonly maxItems: number;
}

/** The types of items that are kept. All others are accepted and dropped while they arrive. */
export const KEPT_ITEMS: ReadonlyMap<string, ItemRule> = new Map([
  ['event', { maxBytes: MAX_EVENT_BYTES, maxItems: 1 }],
  ['feedback', { maxBytes: MAX_EVENT_BYTES, maxItems: 1 }],
  ['user_report', { maxBytes: 64 * 1024, maxItems: 10 }],
  ['session', { maxBytes: 16 * 1024, maxItems: 100 }],
  ['sessions', { maxBytes: 256 * 1024, maxItems: 4 }],
  ['client_report', { maxBytes: 16 * 1024, maxItems: 10 }],
]);

/** Reads an event id: 32 hex digits, or a UUID with dashes. Null for anything else. */
export const readEventId = (value: unknown): string | null => {
  if (typeof value !== 'string') return null;
  const id = value.replaceAll('-', '').toLowerCase();
  return /^[0-9a-f]{32}$/.test(id) ? id : null;
};
