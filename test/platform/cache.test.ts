import fc from 'fast-check';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { Caches, defineCache } from '#platform/cache.ts';

afterEach(() => {
  vi.useRealTimers();
});

describe('a cache', () => {
  it('keeps the values that are in use and drops the others', () => {
    const cache = new Caches().create<number, string>({ name: 'numbers', limit: 10 });
    cache.set(0, 'in use');
    for (let i = 1; i <= 100; i++) {
      cache.set(i, String(i));
      expect(cache.get(0)).toBe('in use');
    }
    expect(cache.get(1)).toBeUndefined();
    expect(cache.get(100)).toBe('100');
    expect(cache.figures.entries).toBeLessThanOrEqual(10);
  });

  it('never holds more weight than its limit, and returns the last value that was set', () => {
    const step = fc.record({ key: fc.nat(8), weight: fc.integer({ min: 1, max: 30 }), removes: fc.boolean() });
    fc.assert(
      fc.property(fc.array(step, { maxLength: 60 }), (steps) => {
        const cache = new Caches().create<number, { readonly weight: number }>({
          name: 'weights',
          limit: 20,
          weightOf: ({ weight }) => weight,
        });
        const last = new Map<number, { readonly weight: number } | undefined>();
        for (const value of steps) {
          if (value.removes) cache.delete(value.key);
          else cache.set(value.key, value);
          last.set(value.key, value.removes ? undefined : value);
          const kept = [...last.keys()].flatMap((key) => {
            const found = cache.get(key);
            if (found) expect(found).toBe(last.get(key));
            return found ?? [];
          });
          expect(kept.reduce((sum, { weight }) => sum + weight, 0)).toBeLessThanOrEqual(20);
        }
      }),
    );
  });

  it('forgets values after their time', () => {
    vi.useFakeTimers();
    const cache = new Caches().create<string, number>({ name: 'short', limit: 10, ttlMs: 1_000 });
    cache.set('a', 1);
    vi.advanceTimersByTime(999);
    expect(cache.get('a')).toBe(1);
    vi.advanceTimersByTime(1);
    expect(cache.get('a')).toBeUndefined();
  });
});

describe('the caches of a process', () => {
  it('share nothing with those of another, and are counted by name', () => {
    const squares = defineCache<number, number>({ name: 'squares', limit: 10 });
    const others = defineCache<number, number>({ name: 'squares', limit: 10 });
    const [one, two] = [{ caches: new Caches() }, { caches: new Caches() }];
    squares(one).set(2, 4);
    expect(squares(one).get(2)).toBe(4);
    expect(squares(two).get(2)).toBeUndefined();
    expect(others(one).get(2)).toBeUndefined();
    expect(one.caches.figures()).toEqual(new Map([['squares', { entries: 1, hits: 1, misses: 1 }]]));
  });
});
