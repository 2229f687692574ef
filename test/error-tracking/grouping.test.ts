import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { groupingOf } from '#domains/error-tracking/digest/grouping.ts';
import { parameterise } from '#domains/error-tracking/digest/parameterise.ts';
import type { NormalizedEvent, NormalizedFrame } from '#domains/error-tracking/event.ts';
import { errorEvent, exception, frame } from '../support/error-events.ts';

const event = (given: Partial<NormalizedEvent>) => errorEvent(1, given);
const keyOf = (given: Partial<NormalizedEvent>): string => groupingOf(event(given)).digest;
const thrown = (frames: readonly NormalizedFrame[], value = 'wrong', type = 'ValueError') => ({
  exceptions: [exception(type, value, frames)],
});
const message = (formatted: string, template: string | null = null) => ({
  exceptions: [],
  message: { template, formatted },
});
const script = (frames: readonly NormalizedFrame[], value = 'x is undefined') => ({
  platform: 'javascript',
  ...thrown(frames, value, 'TypeError'),
});

/** Values that differ each time an error occurs. */
const identifier = fc.oneof(
  fc.uuid(),
  fc.integer().map(String),
  fc.double({ min: 0.001, max: 1e6, noNaN: true }).map((value) => value.toFixed(3)),
  fc.emailAddress().filter((address) => /^[\w.+-]+@[\w.-]+$/.test(address)),
  fc.ipV4(),
  fc.date({ min: new Date(0), max: new Date(4e12), noInvalidDate: true }).map((date) => date.toISOString()),
  fc.integer({ min: 1 }).map((value) => `0x${value.toString(16)}`),
  fc.stringMatching(/^[0-9a-f]{40}$/).filter((text) => /\d/.test(text) && /[a-f]/.test(text)),
  fc.webUrl({ withQueryParameters: true }).filter((url) => !/['"<>()\]]/.test(url)),
);
/** Words that no pattern takes for a value. */
const word = fc.stringMatching(/^[a-z]{2,9}$/).filter((text) => !['http', 'code', 'status'].includes(text));
const name = fc.stringMatching(/^[a-z]{3,12}$/).filter((text) => !['eval', 'lambda', 'anonymous'].includes(text));

describe('the grouping of messages', () => {
  it('does not split an error by the ids in its text', () => {
    const kinds = [fc.uuid(), fc.integer().map(String), fc.ipV4(), fc.emailAddress()] as const;
    const pair = fc.oneof(...kinds.map((kind) => fc.tuple(kind, kind)));
    fc.assert(
      fc.property(fc.array(word, { minLength: 1 }), pair, fc.array(word), (before, [left, right], after) => {
        const text = (id: string) => [...before, id, ...after].join(' ');
        const plain = /^[\w.+@:-]+$/;
        fc.pre(plain.test(left) && plain.test(right));
        expect(keyOf(message(text(left)))).toBe(keyOf(message(text(right))));
        expect(keyOf(thrown([], text(left)))).toBe(keyOf(thrown([], text(right))));
      }),
    );
  });

  it('splits messages that differ in words', () => {
    fc.assert(
      fc.property(fc.array(word, { minLength: 1 }), fc.array(word, { minLength: 1 }), identifier, (left, right, id) => {
        fc.pre(left.join(' ') !== right.join(' '));
        expect(keyOf(message(`${left.join(' ')} ${id}`))).not.toBe(keyOf(message(`${right.join(' ')} ${id}`)));
      }),
    );
  });

  it('takes a host name as one value, however many parts it has', () => {
    expect(parameterise('no route to a.b.c.d.e.f.g.h.i.j.db-1.example.com:5432 now')).toBe(
      'no route to <hostname> now',
    );
  });

  it('copes with hostile text', () => {
    for (const hostile of ['a.', 'a@', '1:', '-1', 'ab1', '="', '::', '0.0', 'a'])
      parameterise(hostile.repeat(8192 / hostile.length));
    fc.assert(
      fc.property(fc.string({ unit: 'grapheme' }), (text) => {
        expect(typeof parameterise(text)).toBe('string');
      }),
    );
  });

  it.each([
    ['user 42 not found', 'user <int> not found'],
    ['GET https://example.com/a?b=1 took 1.5s', 'GET <url> took <duration>'],
    ['no host db1.internal:5432', 'no host <hostname>'],
    ['10.0.0.1 refused fe80:0:0:0:1:2:3:4', '<ip> refused <ip>'],
    ['at 2026-11-20T10:00:00Z, 0xdeadbeef', 'at <date>, <hex>'],
    ['id=d9b1f2f4-88d4-4f2e-9f0c-1c1f0e0d0a0b', 'id=<uuid>'],
    ["name='Ann' active=true", 'name=<quoted> active=<bool>'],
    ['charge ch_3MtwBwLkdIwHu7ix28a3tqPa failed', 'charge <id> failed'],
    ['HTTP 404 and status code: 500', 'HTTP 404 and status code: 500'],
    ['utf8 is not base64 in v2', 'utf8 is not base64 in v2'],
    ['\n\n  first \n\nsecond 1\nthird', 'first\nsecond <int>'],
  ])('reads %j as %j', (text, expected) => {
    expect(parameterise(text)).toBe(expected);
  });

  it('uses the template and the logger if the sender gave them', () => {
    expect(keyOf(message('bye Ann', 'bye %s'))).toBe(keyOf(message('bye Bob', 'bye %s')));
    expect(keyOf(message('bye Ann', 'bye %s'))).not.toBe(keyOf(message('bye Ann', 'good bye %s')));
    expect(keyOf({ ...message('x'), logger: 'a' })).not.toBe(keyOf({ ...message('x'), logger: 'b' }));
  });
});

describe('the grouping of exceptions', () => {
  it('goes by the functions of the stack in their order, not by values, lines or files of libraries', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(name, { minLength: 2, maxLength: 10 }),
        fc.nat(),
        identifier,
        (functions, swapped, value) => {
          const frames = functions.map((each) => frame(each));
          const key = keyOf(thrown(frames));
          const moved = frames.flatMap((each, line) => [
            { ...each, lineno: line + 100 },
            frame('helper', { in_app: false, filename: `lib${line}.py` }),
          ]);
          expect(keyOf(thrown(moved, value))).toBe(key);
          const at = swapped % (frames.length - 1);
          const [left, right] = [frames[at], frames[at + 1]];
          if (!left || !right) throw new Error('too few frames');
          expect(keyOf(thrown(frames.with(at, right).with(at + 1, left)))).not.toBe(key);
        },
      ),
    );
  });

  it('looks at the ten frames of the application next to the crash', () => {
    const frames = Array.from({ length: 12 }, (_, n) => frame(`step${String.fromCharCode(97 + n)}`));
    expect(keyOf(thrown(frames))).toBe(keyOf(thrown(frames.slice(2))));
    expect(keyOf(thrown(frames))).not.toBe(keyOf(thrown(frames.slice(3))));
  });

  it('uses the frames of libraries if there are no others, and guesses which those are', () => {
    const library = (fn: string) => frame(fn, { in_app: null, filename: '/srv/node_modules/express/router.js' });
    const own = (fn: string) => frame(fn, { in_app: null, filename: '/srv/app/router.js' });
    expect(keyOf(thrown([own('main'), library('handle')]))).toBe(keyOf(thrown([own('main'), library('next')])));
    expect(keyOf(thrown([library('handle')]))).not.toBe(keyOf(thrown([library('next')])));
    const java = (fn: string) =>
      frame(fn, { in_app: null, filename: 'Method.java', module: 'java.lang.reflect.Method' });
    expect(keyOf(thrown([own('main'), java('invoke')]))).toBe(keyOf(thrown([own('main')])));
  });

  it('looks at all chained exceptions, and not at the type of one that the SDK made up', () => {
    const cause = exception('KeyError', 'a', [frame('get')]);
    const last = exception('LoadError', 'b', [frame('load')]);
    expect(keyOf({ exceptions: [cause, last] })).not.toBe(keyOf({ exceptions: [last] }));
    expect(keyOf({ exceptions: [cause, last] })).not.toBe(keyOf({ exceptions: [last, cause] }));
    const mechanism = { type: null, handled: null, exception_id: null, parent_id: null, is_exception_group: false };
    const madeUp = (type: string, synthetic: boolean) => ({
      exceptions: [exception(type, 'x', [frame('main')], { mechanism: { ...mechanism, synthetic } })],
    });
    expect(keyOf(madeUp('SIGSEGV', true))).toBe(keyOf(madeUp('EXC_BAD', true)));
    expect(keyOf(madeUp('SIGSEGV', false))).not.toBe(keyOf(madeUp('EXC_BAD', false)));
    expect(groupingOf(event(madeUp('SIGSEGV', true)))).toMatchObject({ title: 'x' });
  });

  it('ignores names that compilers number and builds change', () => {
    const same = (left: readonly NormalizedFrame[], right: readonly NormalizedFrame[]) =>
      expect(keyOf(thrown(left))).toBe(keyOf(thrown(right)));
    same([frame('Object.load')], [frame('load')]);
    same([frame('block in load')], [frame('block (2 levels) in load')]);
    same([frame('lambda$load$0')], [frame('lambda$load$7')]);
    same([frame('walk'), frame('walk'), frame('walk')], [frame('walk')]);
    same(
      [frame('run', { module: 'a.B$$EnhancerBySpringCGLIB$$1a2b3c' })],
      [frame('run', { module: 'a.B$$EnhancerBySpringCGLIB$$9f8e7d' })],
    );
    const built = (filename: string) => keyOf(script([frame('render', { filename })]));
    expect(built('https://a.example/app.3f2a9c1d.js?v=1')).toBe(built('https://a.example/app.77b0c2e4.js'));
    expect(built('https://a.example/app.js')).not.toBe(built('https://a.example/admin.js'));
  });

  it('uses type, value and file where minified code hides the functions', () => {
    const minified = (fn: string, value: string) =>
      keyOf(script([frame(fn, { filename: 'https://a.example/app.js' })], value));
    expect(minified('t', 'a is undefined')).toBe(minified('e', 'a is undefined'));
    expect(minified('t', 'a is undefined')).not.toBe(minified('t', 'b is undefined'));
    const long = { context_line: 'x'.repeat(300), filename: 'app.js' };
    expect(keyOf(script([frame('loadUser', long)]))).toBe(keyOf(script([frame('loadTeam', long)])));
    // Readable source tells functions without a name apart.
    const anonymous = (source: string) => keyOf(script([frame('<anonymous>', { context_line: source })]));
    expect(anonymous('  user.load( )')).toBe(anonymous('user.load( )'));
    expect(anonymous('user.load()')).not.toBe(anonymous('team.load()'));
  });

  it('uses the stack of the event if no exception has one', () => {
    const on = (fn: string) => keyOf({ ...thrown([]), stack: [frame(fn)] });
    expect(on('load')).not.toBe(on('save'));
    const bare = (fn: string) => keyOf({ exceptions: [], stack: [frame(fn)] });
    expect(bare('load')).not.toBe(bare('save'));
    expect(keyOf({ exceptions: [] })).toBe(keyOf({ exceptions: [] }));
  });
});

describe('a fingerprint of the application', () => {
  it('replaces the usual grouping, or extends it', () => {
    const with_ = (fingerprint: readonly string[], fn = 'main') => keyOf({ ...thrown([frame(fn)]), fingerprint });
    expect(with_(['checkout'], 'a')).toBe(with_(['checkout'], 'b'));
    expect(with_(['checkout'])).not.toBe(with_(['cart']));
    expect(with_(['{{ default }}', 'eu'])).toBe(with_(['{{default}}', 'eu']));
    expect(with_(['{{ default }}', 'eu'])).not.toBe(with_(['{{ default }}', 'us']));
    expect(with_(['{{ default }}', 'eu'], 'a')).not.toBe(with_(['{{ default }}', 'eu'], 'b'));
    expect(with_(['{{ default }}'])).toBe(with_([]));
  });
});

describe('the texts of an error', () => {
  it('are the first line of the thrown value, and its place', () => {
    expect(groupingOf(event(thrown([frame('main', { module: 'shop.cart' })], 'no cart\nfor Ann')))).toMatchObject({
      type: 'ValueError',
      title: 'ValueError: no cart',
      culprit: 'shop.cart in main',
    });
    const texts = (given: Partial<NormalizedEvent>) => {
      const { type, title, culprit } = groupingOf(event(given));
      return [type, title, culprit];
    };
    expect(texts({ ...thrown([]), transaction: '/cart' })).toEqual(['ValueError', 'ValueError: wrong', '/cart']);
    expect(texts(message('hello\nthere'))).toEqual([null, 'hello', null]);
    expect(texts({ exceptions: [] })).toEqual([null, 'Event without a message', null]);
    expect(texts(thrown([], 'x'.repeat(1000)))[1]).toHaveLength(300);
    expect(texts({ exceptions: [exception(null, null)] })[1]).toBe('Error');
  });
});
