import fc from 'fast-check';
import { expect, it } from 'vitest';
import { type Entry, LinkedSet } from '#app/linked-set.ts';

const itemsOf = <T>(set: LinkedSet<T>): T[] => [...set].map(({ item }) => item);

it('has the items that were added and not deleted, in any order of these calls', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(fc.constant('add' as const), fc.nat({ max: 30 }))), (steps) => {
      const set = new LinkedSet<number>();
      const entries: Entry<number>[] = [];
      const wanted = new Set<number>();
      for (const step of steps) {
        const place = step === 'add' ? null : entries[step];
        if (step === 'add') {
          entries.push(set.add(entries.length));
          wanted.add(entries.length - 1);
        } else if (place) {
          set.delete(place);
          wanted.delete(place.item);
          expect([place.before, place.after]).toEqual([null, null]);
        }
      }
      expect(itemsOf(set).toSorted((a, b) => a - b)).toEqual([...wanted]);
    }),
  );
});

it('lets the current item be deleted', () => {
  const set = new LinkedSet<number>();
  for (const item of [1, 2, 3, 4]) set.add(item);
  for (const place of set) if (place.item % 2 === 0) set.delete(place);
  expect(itemsOf(set).toSorted()).toEqual([1, 3]);
});
