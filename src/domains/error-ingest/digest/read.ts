import type { ClientDiscard, SessionCounts, UserReport } from '#domains/error-tracking/event.ts';
import { type PreparedEvent, prepareEvent } from '#domains/error-tracking/prepared-event.ts';
import type { JsonObject } from '#platform/values/json.ts';
import { unpack } from '../decoding.ts';
import { type EnvelopeItem, payloadOf, readEnvelope } from '../envelope.ts';
import { type Encoding, type Form, WHOLE_UNPACKED_BYTES } from '../model.ts';
import { type Arrived, normalizeEvent } from '../normalize/event.ts';
import { readClientReport, readSession, readSessions, readUserReport } from '../normalize/reports.ts';
import { asObject, parseLenient } from '../normalize/values.ts';

/** An envelope as it is stored. */
export interface StoredEnvelope {
  readonly id: number;
  readonly project_id: number;
  readonly key_id: number;
  readonly received_at: string;
  readonly event_id: string | null;
  readonly form: Form;
  readonly encoding: Encoding;
  readonly size: number;
  readonly address: string;
  readonly body: Uint8Array;
}

/** The content of an envelope. */
export interface Contents {
  readonly id: number;
  readonly project_id: number;
  readonly events: readonly PreparedEvent[];
  readonly sessions: readonly SessionCounts[];
  readonly discards: readonly ClientDiscard[];
  readonly reports: readonly UserReport[];
  /** Why something of it was not understood. Null if all was. */
  readonly problem: string | null;
}

interface Collected {
  readonly events: PreparedEvent[];
  readonly sessions: SessionCounts[];
  readonly discards: ClientDiscard[];
  readonly reports: UserReport[];
  readonly problems: string[];
}

/** Reads a stored envelope. Items that are not understood are left out and named in `problem`. */
export const readContents = (stored: StoredEnvelope): Contents => {
  const { id, project_id } = stored;
  const collected: Collected = { events: [], sessions: [], discards: [], reports: [], problems: [] };
  try {
    const [header, items] = itemsOf(stored);
    for (const item of items) readItem(item, stored, header, collected);
  } catch (error) {
    collected.problems.push(error instanceof Error ? error.message : String(error));
  }
  const { problems, ...contents } = collected;
  return { id, project_id, ...contents, problem: problems.length === 0 ? null : problems.join('; ').slice(0, 500) };
};

const itemsOf = ({ body, encoding, form, size }: StoredEnvelope): [JsonObject, readonly EnvelopeItem[]] => {
  const packed = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  const plain = unpack(packed, encoding, Math.max(size, WHOLE_UNPACKED_BYTES));
  if (!plain) throw new Error('the body unpacks to more than its size');
  if (form === 'event') return [{}, [{ type: 'event', parts: [plain] }]];
  const { header, items } = readEnvelope(plain);
  return [header, items];
};

const readItem = (item: EnvelopeItem, stored: StoredEnvelope, header: JsonObject, into: Collected): void => {
  const { project_id, received_at, address, event_id } = stored;
  const arrived: Omit<Arrived, 'event_id'> = { project_id, received_at, address, header };
  const given = parseItem(item, into);
  if (!given) return;
  switch (item.type) {
    case 'event':
      // Two items cannot have the same event id.
      if (event_id !== null && into.events.length === 0) {
        into.events.push(prepareEvent(normalizeEvent(given, { ...arrived, event_id })));
      }
      break;
    case 'session':
      into.sessions.push(...readSession(given, arrived));
      break;
    case 'sessions':
      into.sessions.push(...readSessions(given, arrived));
      break;
    case 'client_report':
      into.discards.push(...readClientReport(given, arrived));
      break;
    case 'user_report':
      into.reports.push(...[readUserReport(given, arrived)].filter((report) => report !== null));
      break;
    case 'feedback': {
      const feedback = asObject(asObject(given.contexts)?.feedback);
      const report = feedback && readUserReport(feedback, arrived);
      if (report) into.reports.push(report);
      break;
    }
  }
};

const parseItem = (item: EnvelopeItem, { problems }: Collected): JsonObject | null => {
  const { type } = item;
  try {
    const given = asObject(parseLenient(payloadOf(item).toString()));
    if (given) return given;
    problems.push(`an item of type ${type} is not an object`);
  } catch {
    problems.push(`an item of type ${type} is not JSON`);
  }
  return null;
};
