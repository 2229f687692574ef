import { anything, assert, dictionary, property, string } from 'fast-check';
import { describe, expect, it } from 'vitest';
import { normalizeEvent } from '#domains/error-ingest/normalize/event.ts';
import { parseLenient } from '#domains/error-ingest/normalize/values.ts';
import { computedMs } from '../support/computed-ms.ts';

const RECEIVED = '2026-05-01T12:00:00.000Z';

const normalize = (event: Record<string, unknown>, header: Record<string, unknown> = {}) =>
  normalizeEvent(event, {
    project_id: 1,
    event_id: 'e'.repeat(32),
    received_at: RECEIVED,
    address: '203.0.113.7',
    header,
  });

/** The event without its empty parts. */
const partsOf = (event: Record<string, unknown>) => {
  const { project_id, event_id, received_at, timestamp, level, platform, ...parts } = normalize(event);
  const isFilled = (part: unknown) => part !== null && (typeof part !== 'object' || Object.keys(part).length > 0);
  return Object.fromEntries(Object.entries(parts).filter(([, part]) => isFilled(part)));
};

const frame = (fields: Record<string, unknown> = {}) => ({ function: 'f', filename: 'a.js', lineno: 1, ...fields });

describe('normalisation', () => {
  it('takes every form of a part', () => {
    const exception = { type: 'TypeError', value: 'x is undefined', stacktrace: { frames: [frame()] } };
    const wanted = {
      exceptions: [{ type: 'TypeError', value: 'x is undefined', frames: [{ function: 'f', lineno: 1 }] }],
    };
    for (const form of [[exception], { values: [exception] }, exception]) {
      expect(partsOf({ exception: form })).toMatchObject(wanted);
    }
    expect(partsOf({ 'sentry.interfaces.Exception': [exception] })).toMatchObject(wanted);
    expect(partsOf({ tags: { a: 1, 'b c': true, d: null, e: {} } }).tags).toEqual({ a: '1', 'b-c': 'true' });
    expect(partsOf({ tags: [['a', 'x'], { key: 'b', value: 'y' }, 5] }).tags).toEqual({ a: 'x', b: 'y' });
    expect(partsOf({ exception: [{ type: 'E', value: { code: 5 } }] })).toMatchObject({
      exceptions: [{ value: '{"code":5}' }],
    });
    const crumb = { message: 'clicked', timestamp: 1_777_636_800 };
    expect(partsOf({ breadcrumbs: { values: [crumb, 7] } }).breadcrumbs).toMatchObject([
      { message: 'clicked', timestamp: '2026-05-01T12:00:00.000Z' },
    ]);
  });

  it.each([
    ['text', { template: null, formatted: 'text' }],
    [
      { message: 'Hello %s, %d%%', params: ['Ada', 5] },
      { template: 'Hello %s, %d%%', formatted: 'Hello Ada, 5%' },
    ],
    [
      { message: 'Hi {name}', params: { name: 'Ada' } },
      { template: 'Hi {name}', formatted: 'Hi Ada' },
    ],
    [
      { message: 'Hi %(name)s {}', params: { name: 'Ada' } },
      { template: 'Hi %(name)s {}', formatted: 'Hi Ada {}' },
    ],
    [
      { message: 'a %s', formatted: 'a b' },
      { template: 'a %s', formatted: 'a b' },
    ],
    [
      { message: 'same', formatted: 'same' },
      { template: null, formatted: 'same' },
    ],
    [false, null],
    ['', null],
    [{}, null],
    [[1, 'a'], { template: null, formatted: '[1,"a"]' }],
    [{ other: 1 }, { template: null, formatted: '{"other":1}' }],
  ])('reads the message %j', (message, wanted) => {
    expect(normalize({ message }).message).toEqual(wanted);
    expect(normalize({ logentry: message }).message).toEqual(wanted);
  });

  it.each([
    ['2026-05-01T11:00:00Z', undefined, '2026-05-01T11:00:00.000Z'],
    ['2026-05-01T11:00:00', undefined, '2026-05-01T11:00:00.000Z'],
    ['2026-05-01T11:00:00+02:00', undefined, '2026-05-01T09:00:00.000Z'],
    [1_777_633_200.5, undefined, '2026-05-01T11:00:00.500Z'],
    ['1777633200', undefined, '2026-05-01T11:00:00.000Z'],
    // In the future, before the retention, or not a time: when it arrived.
    ['2026-05-01T12:00:30Z', undefined, RECEIVED],
    ['2027-01-01T00:00:00Z', undefined, RECEIVED],
    ['2026-01-01T00:00:00Z', undefined, RECEIVED],
    ['soon', undefined, RECEIVED],
    [{}, undefined, RECEIVED],
    [1e308, undefined, RECEIVED],
    // The clock of the sender is an hour ahead, or only a little.
    ['2026-05-01T12:59:00Z', '2026-05-01T13:00:00Z', '2026-05-01T11:59:00.000Z'],
    ['2026-05-01T11:59:00Z', '2026-05-01T11:50:00Z', '2026-05-01T11:59:00.000Z'],
  ])('reads the time %j, sent at %j', (timestamp, sent_at, wanted) => {
    expect(normalize({ timestamp }, { sent_at }).timestamp).toBe(wanted);
  });

  it('falls back where a field has an unknown value', () => {
    expect(normalize({ level: 'log', platform: 'COBOL' })).toMatchObject({ level: 'error', platform: 'other' });
    expect(normalize({ level: 'fatal', platform: 'Python' })).toMatchObject({ level: 'fatal', platform: 'python' });
    expect(normalize({ release: 'a\nb', environment: ' live ', dist: 5 })).toMatchObject({
      release: null,
      environment: 'live',
      dist: '5',
    });
    expect(normalize({ culprit: 'main' }).transaction).toBe('main');
    expect(normalize({ user: { id: 5, ip_address: '{{auto}}', plan: 'free' } }).user).toEqual({
      ...{ id: '5', username: null, email: null, ip_address: '203.0.113.7', data: { plan: 'free' } },
    });
  });

  it('takes the stack of the crashed thread, or of the event, if no exception has one', () => {
    const stacktrace = (name: string) => ({ stacktrace: { frames: [frame({ function: name })] } });
    const threads = { values: [stacktrace('other'), { crashed: true, ...stacktrace('crashed') }] };
    expect(normalize({ threads }).stack).toMatchObject([{ function: 'crashed' }]);
    expect(normalize({ ...stacktrace('own') }).stack).toMatchObject([{ function: 'own' }]);
    expect(normalize({ threads, exception: [stacktrace('thrown')] }).stack).toEqual([]);
  });

  it('cuts long parts, and names those that it cut', () => {
    const long = 'x'.repeat(20_000);
    const event = normalize({
      message: long,
      transaction: long,
      exception: [{ type: long, value: long }],
      tags: Object.fromEntries([['long', long], ...Array.from({ length: 150 }, (_, i) => [`t${i}`, i])]),
      extra: { long, short: 'short', deep: JSON.parse('['.repeat(20) + ']'.repeat(20)) },
      breadcrumbs: Array.from({ length: 150 }, (_, i) => ({ message: String(i) })),
      fingerprint: Array.from({ length: 50 }, String),
      modules: Object.fromEntries(Array.from({ length: 2_000 }, (_, i) => [`module-${i}`, '1.0.0'])),
    });
    expect(event.message?.formatted).toHaveLength(8_192);
    expect(event.message?.formatted.endsWith('x…')).toBe(true);
    expect(event.transaction).toHaveLength(200);
    expect(event.exceptions[0]).toMatchObject({ type: expect.stringMatching(/^x{255}…$/) });
    expect(Object.keys(event.tags)).toHaveLength(100);
    expect(event.tags.long).toHaveLength(200);
    expect(event.breadcrumbs.map(({ message }) => message)).toEqual(
      Array.from({ length: 100 }, (_, i) => String(i + 50)),
    );
    expect(event.extra).toMatchObject({ short: 'short', long: expect.stringMatching(/^x{16000,16384}…$/) });
    expect(JSON.stringify(event.extra.deep)).toBe('[[[[[["…"]]]]]]');
    const cut = ['message', 'transaction', 'exceptions.0.type', 'exceptions.0.value', 'tags', 'tags.long'];
    expect(event.cut).toEqual(expect.arrayContaining([...cut, 'extra.long', 'extra.deep', 'breadcrumbs', 'modules']));
    const { cut: none } = normalize({ message: 'short', extra: { a: 1 } });
    expect(none).toEqual([]);
  });

  it('keeps the details of 50 frames of 250, those of the application before others', () => {
    const frames = Array.from({ length: 300 }, (_, i) =>
      frame({ function: `f${i}`, context_line: 'line', vars: { i }, in_app: i === 150 }),
    );
    const [{ frames: kept } = { frames: [] }] = normalize({
      exception: [{ type: 'E', stacktrace: { frames } }],
    }).exceptions;
    expect(kept).toHaveLength(250);
    expect(kept.at(-1)).toMatchObject({ function: 'f299', context_line: 'line', vars: { i: 299 } });
    const detailed = kept.filter(({ vars }) => vars !== null);
    expect(detailed).toHaveLength(50);
    expect(detailed.some(({ function: name }) => name === 'f150')).toBe(true);
  });

  it('never fails, and leaves nothing that Postgres cannot store', () => {
    const fields = ['message', 'exception', 'tags', 'extra', 'request', 'user', 'breadcrumbs', 'contexts', 'threads'];
    assert(
      property(dictionary(string({ unit: 'binary' }), anything({ maxDepth: 4, withNullPrototype: true })), (value) => {
        const event = JSON.parse(JSON.stringify({ a: value }, (_key, each) => (typeof each === 'bigint' ? 1 : each)));
        for (const field of fields) {
          const text = JSON.stringify(normalize({ [field]: event.a, timestamp: event.a, fingerprint: [event.a] }));
          expect(text).not.toMatch(/\\u0000|\\ud[89a-f]/);
        }
      }),
      { numRuns: 50 },
    );
  });
});

describe('scrubbing', () => {
  it('replaces values whose names say that they are secret, at any depth', () => {
    const event = normalize({
      extra: {
        password: 'a',
        'X-Api-Key': 'b',
        nested: [{ authToken: 'c', name: 'kept' }],
        two_factor: 1,
        otp: 2,
        optimum: 3,
      },
      contexts: { app: { MYSQL_PWD: 'd', version: '1' } },
      tags: { secret_level: 'e', level: 'f' },
      request: {
        url: 'https://ada:pw@shop.example/cart?token=g&page=2',
        query_string: 'token=g&page=2',
        headers: [
          ['Authorization', 'Bearer abcdefghij'],
          ['Cookie', 'a=b'],
          ['User-Agent', 'x/4111111111111111'],
        ],
        cookies: 'sessionid=h; theme=dark; csrftoken=i',
        data: { user: { passwd: 'j', mail: 'kept' } },
        env: { SECRET_KEY: 'k', LANG: 'C' },
      },
      exception: [{ type: 'E', stacktrace: { frames: [frame({ vars: { private_key: 'l', n: 1 } })] } }],
      breadcrumbs: [{ data: { credentials: 'm', url: 'https://a.example/?api_key=n' } }],
    });
    expect(event).toMatchObject({
      extra: {
        ...{
          password: '[Filtered]',
          'X-Api-Key': '[Filtered]',
          two_factor: '[Filtered]',
          otp: '[Filtered]',
          optimum: 3,
        },
        nested: [{ authToken: '[Filtered]', name: 'kept' }],
      },
      contexts: { app: { MYSQL_PWD: '[Filtered]', version: '1' } },
      tags: { secret_level: '[Filtered]', level: 'f' },
      request: {
        url: 'https://[Filtered]@shop.example/cart?token=[Filtered]&page=2',
        query_string: 'token=[Filtered]&page=2',
        headers: { Authorization: '[Filtered]', Cookie: '[Filtered]', 'User-Agent': 'x/4111111111111111' },
        cookies: { sessionid: '[Filtered]', theme: 'dark', csrftoken: '[Filtered]' },
        data: { user: { passwd: '[Filtered]', mail: 'kept' } },
        env: { SECRET_KEY: '[Filtered]', LANG: 'C' },
      },
      exceptions: [{ frames: [{ vars: { private_key: '[Filtered]', n: 1 } }] }],
      breadcrumbs: [{ data: { credentials: '[Filtered]' } }],
    });
  });

  it.each([
    ['card 4111 1111 1111 1111 was refused', 'card [Filtered] was refused'],
    ['amex 378282246310005', 'amex [Filtered]'],
    ['order 1234567890123456 stays', 'order 1234567890123456 stays'],
    ['to DE89 3704 0044 0532 0130 00 now', 'to [Filtered] now'],
    ['ssn 078-05-1120', 'ssn [Filtered]'],
    ['-----BEGIN RSA PRIVATE KEY-----\nMII\n-----END RSA PRIVATE KEY-----', '[Filtered]'],
    ['sent Bearer eyJhbGciOi.abc', 'sent Bearer [Filtered]'],
    ['got basic YWRhOnB3MTIz', 'got basic [Filtered]'],
    ['Basic authentication failed, bearer authorization too', 'Basic authentication failed, bearer authorization too'],
    ['postgres://app:pw@db/x', 'postgres://[Filtered]@db/x'],
    ['2026-05-01 12:00:00 is a time, 127.0.0.1 an address', '2026-05-01 12:00:00 is a time, 127.0.0.1 an address'],
  ])('replaces secrets inside texts: %s', (text, wanted) => {
    expect(normalize({ message: text, extra: { text } })).toMatchObject({
      message: { formatted: wanted },
      extra: { text: wanted },
    });
  });

  it('replaces secrets also where the text is cut', () => {
    const secret = 'postgres://app:correct-horse@db/x';
    const text = (length: number) => `${'x'.repeat(length - 25)} ${secret}`;
    const event = normalize({
      message: text(8_192),
      extra: { text: text(16_384) },
      breadcrumbs: [{ message: text(2_048) }],
      request: { url: `https://shop.example/${'x'.repeat(2_010)}?a=4111111111111111&b=2` },
    });
    expect(event.cut).toEqual(expect.arrayContaining(['message', 'extra.text', 'breadcrumbs.0.message']));
    expect(JSON.stringify(event)).not.toMatch(/corr|41111/);
  });

  it('replaces secrets in JSON that the SDK sent as text, also if it was cut', () => {
    const dataOf = (data: string) => normalize({ request: { data } }).request?.data;
    expect(dataOf('{"user":"ann","password":"pw","more":[{"api_key":5,"credentials":{"a":"b"}}]}')).toBe(
      '{"user":"ann","password":"[Filtered]","more":[{"api_key":"[Filtered]","credentials":"[Filtered]"}]}',
    );
    expect(dataOf(' [{"token" : "a\\"b", "n":NaN}]')).toBe('[{"token":"[Filtered]","n":null}]');
    expect(dataOf('{"n":1,"passwd":"a\\"b","authToken" : -1,"name":"x","secret":"is c')).toBe(
      '{"n":1,"passwd":"[Filtered]","authToken":"[Filtered]","name":"x","secret":"[Filtered]"',
    );
    expect(dataOf('{"list":[1],"credentials":[{"a":"b')).toBe('{"list":[1],"credentials":"[Filtered]"');
    expect(dataOf('{ card 4111111111111111')).toBe('{ card [Filtered]');
  });

  it('parses a text with a string that never ends in linear time', () => {
    const before = computedMs();
    for (const piece of ['\\"', '"a ', '"\\"a ']) {
      expect(() => parseLenient(`{"a":NaN,"${piece.repeat(300_000)}`)).toThrow(SyntaxError);
    }
    expect(computedMs() - before).toBeLessThan(2_000);
    expect(parseLenient('{"NaN":"-Infinity \\" NaN","a":[NaN,-Infinity]}')).toEqual({
      NaN: '-Infinity " NaN',
      a: [null, null],
    });
  });

  it('takes time linear in the size of an event', () => {
    const data = ['{"a":"'.repeat(100_000), '{"a":"\\"'.repeat(100_000), `{${'"a":['.repeat(100_000)}`];
    const texts = ['a.'.repeat(8_000), '4111-'.repeat(3_000), '-----BEGIN A-----'.repeat(900), 'a://a:'.repeat(2_500)];
    const extra = Object.fromEntries(texts.map((text, i) => [`t${i}`, text]));
    const before = computedMs();
    normalize({ extra, message: texts.join(' ') });
    for (const text of data) normalize({ request: { data: text } });
    expect(computedMs() - before).toBeLessThan(1_000);
  });
});
