/** Clocks that differ by less are left alone, as sending takes time too. */
const DRIFT_MS = 55 * 60_000;
const FUTURE_MS = 60_000;
const RETENTION_MS = 90 * 86_400_000;

/** Corrects the times of one sender (reference: error-tracking §6). */
export class SenderClock {
  readonly #receivedMs: number;
  readonly #shiftMs: number;

  constructor(receivedAt: string, sentAt: unknown) {
    this.#receivedMs = Date.parse(receivedAt);
    const sentMs = readTime(sentAt);
    const drift = sentMs === null ? 0 : this.#receivedMs - sentMs;
    this.#shiftMs = Math.abs(drift) >= DRIFT_MS ? drift : 0;
  }

  /** Reads a time of the sender as ISO 8601. Null if it is none. */
  read(value: unknown): string | null {
    const ms = readTime(value);
    if (ms === null) return null;
    const shifted = ms + this.#shiftMs;
    return Math.abs(shifted) > MAX_MS ? null : new Date(shifted).toISOString();
  }

  /** Reads the time of an event: the time of arrival if it is missing, in the future, or older than the retention. */
  readPast(value: unknown): string {
    const read = this.read(value);
    const ms = read === null ? this.#receivedMs : Date.parse(read);
    const isPlausible = ms <= this.#receivedMs + FUTURE_MS && ms > this.#receivedMs - RETENTION_MS;
    return new Date(isPlausible ? Math.min(ms, this.#receivedMs) : this.#receivedMs).toISOString();
  }
}

const MAX_MS = 8.64e15;
const ISO = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?(Z|[+-]\d\d:?\d\d)?$/i;

/** Reads RFC 3339 (UTC if it names no zone) or seconds since 1970. In milliseconds; null if it is neither. */
const readTime = (value: unknown): number | null => {
  if (typeof value === 'number') return Number.isFinite(value) ? value * 1_000 : null;
  if (typeof value !== 'string' || value.length > 40) return null;
  if (/^\d{1,12}(?:\.\d+)?$/.test(value)) return Number(value) * 1_000;
  const match = ISO.exec(value);
  if (!match) return null;
  const ms = Date.parse(match[1] === undefined ? `${value}Z` : value);
  return Number.isNaN(ms) ? null : ms;
};
