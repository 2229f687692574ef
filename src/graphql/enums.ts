/** Returns the `values` of an enum type: the words in upper case, each standing for its word. */
export const upperCase = <const T extends string>(words: readonly T[]) => {
  const values: Record<string, { readonly value: T }> = {};
  for (const word of words) values[word.toUpperCase()] = { value: word };
  return values;
};
