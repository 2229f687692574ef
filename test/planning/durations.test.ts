import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { humanDuration, parseDuration } from '#domains/planning/time-tracking.ts';

const SIZES = { mo: 576_000, w: 144_000, d: 28_800, h: 3_600, m: 60, s: 1 } as const;

describe('durations', () => {
  it.each([
    ['3h30m', 12_600],
    ['3h 30m', 12_600],
    ['1w 2d', 201_600],
    ['1mo', 576_000],
    ['2', 7_200],
    ['1.5h', 5_400],
    ['1.5', 5_400],
    ['-30m', -1_800],
    [' 1H ', 3_600],
    ['0', 0],
    ['0h', 0],
  ])('reads %j', (given, seconds) => {
    expect(parseDuration(given)).toBe(seconds);
  });

  it.each(['', '-', 'abc', '1x', '1h2', 'h', '1h--2m', '1 2', '99999999999h', '9999999999w', '1hm', '1,5h', '--1h'])(
    'refuses %j',
    (given) => {
      expect(parseDuration(given)).toBeNull();
    },
  );

  it('add up their parts', () => {
    const part = fc.tuple(fc.integer({ min: 0, max: 500 }), fc.constantFrom('mo', 'w', 'd', 'h', 'm', 's'));
    fc.assert(
      fc.property(
        fc.array(part, { minLength: 1, maxLength: 5 }),
        fc.constantFrom('', ' ', '  '),
        fc.boolean(),
        (parts, space, negative) => {
          const text = `${negative ? '-' : ''}${parts.map(([count, unit]) => `${count}${unit}`).join(space)}`;
          const sum = parts.reduce((total, [count, unit]) => total + count * SIZES[unit], 0);
          expect(parseDuration(text)).toBe(negative && sum > 0 ? -sum : sum);
        },
      ),
    );
  });

  it('are read as they are shown', () => {
    fc.assert(
      fc.property(fc.integer({ min: -2_147_483_647, max: 2_147_483_647 }), (seconds) => {
        expect(parseDuration(humanDuration(seconds) ?? '0')).toBe(seconds);
      }),
    );
  });

  it('never throws', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const seconds = parseDuration(text);
        expect(seconds === null || Number.isSafeInteger(seconds)).toBe(true);
      }),
    );
  });
});
