/** Returns the record with the same keys, and what `map` makes of each value. */
export function mapRecord<K extends string, V, R>(
  record: Readonly<Record<K, V>>,
  map: (value: V, key: K) => R,
): Record<K, R>;
// TypeScript knows the keys of an object only as strings.
export function mapRecord<V>(
  record: Readonly<Record<string, V>>,
  map: (value: V, key: string) => unknown,
): Record<string, unknown> {
  return Object.fromEntries(Object.entries(record).map(([key, value]) => [key, map(value, key)]));
}
