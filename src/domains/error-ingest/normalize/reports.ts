import type { ClientDiscard, SessionCounts, UserReport } from '#domains/error-tracking/event.ts';
import type { JsonObject } from '#platform/values/json.ts';
import { cleanText } from '#platform/values/to-jsonb.ts';
import { readEventId } from '../model.ts';
import type { Arrived } from './event.ts';
import { SenderClock } from './times.ts';
import { asObject, asText } from './values.ts';

const MAX_AGGREGATES = 100;
const MAX_DISCARDS = 100;
const MAX_COUNT = 1_000_000;
const NAME = /^[a-z][a-z0-9_]{0,63}$/;

type Received = Omit<Arrived, 'event_id'>;

/** Reads a session, or an update of one. The first update counts the session. Later ones say again what happened. */
export const readSession = (given: JsonObject, received: Received): SessionCounts[] => {
  const attrs = asObject(given.attrs) ?? {};
  const { status = 'ok' } = given;
  const hasErrors = countOf(given.errors) > 0;
  return readCounts(given, attrs, received, {
    sid: readEventId(given.sid),
    total: given.init === true ? 1 : 0,
    errored: hasErrors && status !== 'crashed' && status !== 'abnormal' ? 1 : 0,
    crashed: status === 'crashed' ? 1 : 0,
    abnormal: status === 'abnormal' ? 1 : 0,
  });
};

/** Reads sessions that the SDK has counted already, as SDKs of servers do. */
export const readSessions = (given: JsonObject, received: Received): SessionCounts[] => {
  const attrs = asObject(given.attrs) ?? {};
  const { aggregates } = given;
  if (!Array.isArray(aggregates)) return [];
  return aggregates.slice(0, MAX_AGGREGATES).flatMap((item) => {
    const each = asObject(item);
    if (!each) return [];
    const [crashed, abnormal] = [countOf(each.crashed), countOf(each.abnormal)];
    const errored = countOf(each.errored) + countOf(each.unhandled);
    const total = countOf(each.exited) + errored + crashed + abnormal;
    return readCounts(each, attrs, received, { sid: null, total, errored, crashed, abnormal });
  });
};

const readCounts = (
  given: JsonObject,
  attrs: JsonObject,
  { project_id, received_at, header }: Received,
  { sid, ...counts }: Pick<SessionCounts, 'sid' | 'total' | 'errored' | 'crashed' | 'abnormal'>,
): SessionCounts[] => {
  const release = nameOf(attrs.release, 200);
  if (release === null || Object.values(counts).every((count) => count === 0)) return [];
  const started = new SenderClock(received_at, header.sent_at).readPast(given.started);
  return [{ project_id, release, environment: nameOf(attrs.environment, 64), started, sid, ...counts }];
};

/** Reads the events that an SDK has dropped. */
export const readClientReport = (given: JsonObject, { project_id, received_at, header }: Received): ClientDiscard[] => {
  const timestamp = new SenderClock(received_at, header.sent_at).readPast(given.timestamp);
  const { discarded_events: events } = given;
  if (!Array.isArray(events)) return [];
  return events.slice(0, MAX_DISCARDS).flatMap((item) => {
    const { reason, category, quantity } = asObject(item) ?? {};
    const isNamed =
      typeof reason === 'string' && NAME.test(reason) && typeof category === 'string' && NAME.test(category);
    const count = countOf(quantity);
    return isNamed && count > 0 ? [{ project_id, timestamp, reason, category, quantity: count }] : [];
  });
};

/** Reads what a person wrote about an error. Null if it says nothing, or names no event. */
export const readUserReport = (given: JsonObject, { project_id, received_at }: Received): UserReport | null => {
  const event_id = readEventId(given.event_id ?? given.associated_event_id);
  const text = (value: unknown, max: number) => cleanText((asText(value) ?? '').slice(0, max));
  const comments = text(given.comments ?? given.message, 4_096);
  if (event_id === null || comments === '') return null;
  const [name, email] = [text(given.name, 128), text(given.email ?? given.contact_email, 254)];
  return { project_id, event_id, name, email, comments, received_at };
};

const countOf = (value: unknown): number =>
  typeof value === 'number' && Number.isInteger(value) && value > 0 ? Math.min(value, MAX_COUNT) : 0;

const nameOf = (value: unknown, max: number): string | null => {
  const text = asText(value)?.trim() ?? '';
  return text === '' || text.length > max || /[\r\n]/.test(text) ? null : cleanText(text);
};
