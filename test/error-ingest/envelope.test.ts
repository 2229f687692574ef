import { array, assert, constantFrom, integer, property, record, string, tuple, uint8Array } from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type Envelope,
  EnvelopeReader,
  payloadOf,
  readEnvelope,
  writeEnvelope,
} from '#domains/error-ingest/envelope.ts';

const TYPES = ['event', 'session', 'attachment', 'unknown'];
const item = record({ type: constantFrom(...TYPES), payload: uint8Array({ maxLength: 40 }) });

/** With the payload of each item in one piece. */
const joinedItems = ({ items, ...envelope }: Envelope) => ({
  ...envelope,
  items: items.map((each) => ({ type: each.type, payload: [...payloadOf(each)] })),
});

describe('envelopes', () => {
  it('are read alike, however they are cut into parts', () => {
    assert(
      property(
        array(item, { maxLength: 6 }),
        array(integer({ min: 1, max: 60 }), { minLength: 1, maxLength: 8 }),
        constantFrom('', '\n'),
        string(),
        (items, sizes, end, text) => {
          const parts = items.flatMap(({ type, payload }) => [
            Buffer.from(`\n${JSON.stringify({ type, length: payload.length })}\n`),
            Buffer.from(payload),
          ]);
          const bytes = Buffer.concat([Buffer.from(JSON.stringify({ text })), ...parts, Buffer.from(end)]);
          const reader = new EnvelopeReader();
          for (let at = 0, i = 0; at < bytes.length; i++) {
            const size = sizes[i % sizes.length] ?? 1;
            reader.push(bytes.subarray(at, at + size));
            at += size;
          }
          const whole = readEnvelope(bytes);
          expect(joinedItems(reader.end())).toEqual(joinedItems(whole));
          expect(whole.header).toEqual({ text });
          const kept = items.filter(({ type }, index) =>
            type === 'event' ? items.findIndex((each) => each.type === type) === index : type === 'session',
          );
          expect(joinedItems(whole).items.map(({ type, payload }) => [type, payload])).toEqual(
            kept.map(({ type, payload }) => [type, [...payload]]),
          );
          expect(whole.dropped).toBe(items.length - kept.length);
          expect(joinedItems(readEnvelope(writeEnvelope(whole)))).toEqual({ ...joinedItems(whole), dropped: 0 });
        },
      ),
      { numRuns: 300 },
    );
  });

  it('fail only with a refusal, for any bytes', () => {
    assert(
      property(
        tuple(uint8Array({ maxLength: 200 }), constantFrom('', '{}\n', '{}\n{"type":"event"}\n')),
        ([bytes, start]) => {
          try {
            readEnvelope(Buffer.concat([Buffer.from(start), bytes]));
          } catch (error) {
            expect(error).toMatchObject({ name: 'Refusal', status: 400 });
          }
        },
      ),
      { numRuns: 500 },
    );
  });
});
