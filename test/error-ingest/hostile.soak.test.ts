import { request } from 'node:http';
import { brotliCompressSync, constants, deflateSync, gzipSync, zstdCompressSync } from 'node:zlib';
import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { COLLECTOR, envelope, eventEnvelope, eventsOf, type Item, makeSender, newEventId } from './sending.ts';

// The rows about error ingest of reference/threats.md.

const app = useApp();

/** A cheap request is answered while and after the attack. */
const expectAlive = async () => expect((await app().anonymous.get('/-/liveness')).status).toBe(200);

describe('hostile envelopes', () => {
  it('cannot unpack without limit', { timeout: 120_000 }, async () => {
    const { send, projectId, post, key } = await makeSender(app());
    // 120 MB of an item that is dropped: more than any body may have.
    const zeros = Buffer.concat([Buffer.from('{}\n{"type":"attachment"}\n'), Buffer.alloc(120_000_000, 48)]);
    const bombs: readonly [string, Buffer][] = [
      ['gzip', gzipSync(zeros, { level: 1 })],
      ['deflate', deflateSync(zeros, { level: 1 })],
      ['br', brotliCompressSync(zeros, { params: { 0: 0, 1: 1 } })],
      ['zstd', zstdCompressSync(zeros)],
    ];
    for (const [encoding, bomb] of bombs) {
      const [answer] = await Promise.all([send(bomb, { 'Content-Encoding': encoding }), expectAlive()]);
      expect([encoding, answer.status]).toEqual([encoding, 413]);
      // Without a key, a body is not unpacked to more than a small size.
      const unknown = await post(`${COLLECTOR}/${projectId}/envelope/`, bomb, { 'Content-Encoding': encoding });
      expect([encoding, unknown.status]).toEqual([encoding, 401]);
      const stored = await post(`${COLLECTOR}/${projectId}/store/?sentry_key=${key.public_key}`, bomb, {
        'Content-Encoding': encoding,
      });
      expect([encoding, stored.status]).toEqual([encoding, 413]);
    }
    expect((await send(Buffer.alloc(21 * 1024 * 1024, 32))).status).toBe(413);
    expect(await eventsOf(app(), projectId)).toEqual([]);
  });

  it('cannot make the hub hold a large window', async () => {
    const { send } = await makeSender(app());
    const { ZSTD_c_contentSizeFlag: sized } = constants;
    const statusOf = async (windowLog: number) => {
      const packed = zstdCompressSync(eventEnvelope(), { params: { [sized]: 0 } });
      // The header claims a window of this size (RFC 8878 §3.1.1.1.2).
      packed[5] = (windowLog - 10) << 3;
      return (await send(packed, { 'Content-Encoding': 'zstd' })).status;
    };
    expect([await statusOf(23), await statusOf(27)]).toEqual([200, 400]);
  });

  it('that are large and slow hold up no other project', async () => {
    const [slow, other] = [await makeSender(app()), await makeSender(app())];
    const path = `${COLLECTOR}/${slow.projectId}/envelope/?sentry_key=${slow.key.public_key}`;
    const item = `{}\n{"type":"attachment","length":1000000}\n${'x'.repeat(400_000)}`;
    const requests = Array.from({ length: 20 }, () => {
      const sent = request(`${app().url}${path}`, { method: 'POST' }).on('error', () => undefined);
      sent.write(item);
      return sent;
    });
    try {
      const body = envelope(
        { event_id: newEventId() },
        [{ type: 'event' }, { message: 'large' }],
        [{ type: 'attachment' }, 'x'.repeat(400_000)],
      );
      for (let i = 0; i < 5; i++) expect((await other.send(body)).status).toBe(200);
    } finally {
      for (const sent of requests) sent.destroy();
    }
    expect((await slow.send(eventEnvelope())).status).toBe(200);
    expect(await eventsOf(app(), other.projectId)).toHaveLength(1);
  });

  it('are refused if their encoding lies', async () => {
    const { send } = await makeSender(app());
    const body = gzipSync(eventEnvelope());
    for (const [encoding, sent] of [
      ['br', body],
      ['zstd', body],
      ['deflate', body],
      ['gzip', body.subarray(0, -12)],
      ['gzip', Buffer.from(eventEnvelope())],
      // Large ones are streamed.
      ['gzip', Buffer.alloc(300_000, 31)],
      ['gzip', gzipSync(Buffer.alloc(3_000_000)).subarray(0, -9)],
    ] as const) {
      expect([encoding, (await send(sent, { 'Content-Encoding': encoding })).status]).toEqual([encoding, 400]);
    }
    await expectAlive();
  });

  it('are refused if their framing is broken', async () => {
    const { send, projectId } = await makeSender(app());
    const event = JSON.stringify({ message: 'x' });
    const bodies = [
      '',
      '\n',
      'x',
      '[]',
      '{}\nx\n{}',
      '{}\n[]\n{}',
      `{}\n{"type":"event","length":${event.length + 1}}\n${event}`,
      `{}\n{"type":"event","length":${event.length - 1}}\n${event}`,
      `{}\n{"type":"event","length":-1}\n${event}`,
      `{}\n{"type":"event","length":"9"}\n${event}`,
      `{}\n{"type":"event","length":1e400}\n${event}`,
      `{}\n{"type":"event","length":1.5}\n${event}`,
      `{}\n{"type":"attachment","length":9007199254740991}\nx`,
      `{"a":"${'x'.repeat(40_000)}"}\n{"type":"event"}\n${event}`,
      `{}\n{"type":"event","a":"${'x'.repeat(40_000)}"}\n${event}`,
    ];
    for (const body of bodies) expect([body.slice(0, 80), (await send(body)).status]).toEqual([body.slice(0, 80), 400]);
    expect(await eventsOf(app(), projectId)).toEqual([]);
  });

  it('with 10,000 items are refused, and items above their number are dropped', async () => {
    const { send, projectId } = await makeSender(app());
    const items = Array.from({ length: 10_000 }, (): Item => [{ type: 'x' }, '']);
    expect((await send(envelope({}, ...items))).status).toBe(400);
    expect((await send(`{}${'\n'.repeat(5_000)}`)).status).toBe(400);
    const events = Array.from({ length: 50 }, (): Item => [{ type: 'event' }, { message: 'one of many' }]);
    expect((await send(envelope({ event_id: newEventId() }, ...events))).status).toBe(200);
    expect(await eventsOf(app(), projectId)).toHaveLength(1);
  });

  it('with an event that is too large are refused, and other items that are too large are dropped', async () => {
    const { send, projectId } = await makeSender(app());
    const text = 'x'.repeat(1_100_000);
    for (const header of [{ type: 'event' }, { type: 'event', length: text.length + 14 }]) {
      expect((await send(envelope({}, [header, `{"message":"${text}"}`]))).status).toBe(413);
    }
    const id = newEventId();
    const session: Item = [{ type: 'session' }, `{"sid":"${text}"}`];
    expect((await send(envelope({ event_id: id }, session, [{ type: 'event' }, { message: 'a' }]))).status).toBe(200);
    expect(await eventsOf(app(), projectId)).toMatchObject([{ event_id: id }]);
  });

  it('with strange texts, keys and nesting are digested', async () => {
    const { send, projectId } = await makeSender(app());
    const deep = '['.repeat(200_000) + ']'.repeat(200_000);
    const payloads = [
      `{"message":"deep","extra":{"a":${deep}},"contexts":${'{"a":'.repeat(50_000)}1${'}'.repeat(50_000)}}`,
      `{"message":"a\\u0000b\\ud800c","tags":{"k\\u0000":"\\udc00"},"user":{"id":"\\u0000"},"release":"r\\u0000"}`,
      `{"message":"proto","__proto__":{"a":1},"extra":{"__proto__":{"b":2},"constructor":{"prototype":1}},"tags":{"__proto__":"x","constructor":"y"}}`,
      `{"message":"numbers","timestamp":1e308,"extra":{"a":1e999,"b":-0,"c":123456789012345678901234567890}}`,
      `{"message":{"message":{"a":1},"params":"x"},"exception":{"values":{"type":1}},"user":[],"request":"x","tags":5,"breadcrumbs":{"values":[1,null,"a",{}]},"level":{"a":1},"fingerprint":[null,{},1],"sdk":[],"modules":[1],"threads":[null],"timestamp":{}}`,
      `{"message":"\\ud83d"}`,
    ];
    for (const payload of payloads) {
      expect((await send(envelope({ event_id: newEventId() }, [{ type: 'event' }, payload]))).status).toBe(200);
    }
    // Invalid UTF-8.
    const invalid = Buffer.concat([
      Buffer.from(`{"event_id":"${newEventId()}"}\n{"type":"event"}\n{"message":"`),
      Buffer.from([0xff, 0xc0, 0x80, 0xed, 0xa0, 0x80]),
      Buffer.from('"}'),
    ]);
    expect((await send(invalid)).status).toBe(200);
    expect(await eventsOf(app(), projectId)).toHaveLength(payloads.length + 1);
    expect(Object.prototype).not.toHaveProperty('a');
    const { rows } = await app().hub.services.pool.query('select id from ingest_failures where project_id = $1', [
      projectId,
    ]);
    expect(rows).toEqual([]);
    await expectAlive();
  });
});
