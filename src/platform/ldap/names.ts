/** Removes spaces around the separators of a distinguished name, which have no meaning (RFC 4514 §2). */
export const tightName = (dn: string): string => dn.replace(/(?<!\\)\s*([,=+])\s*/g, '$1').trim();

/** Returns the possible spellings of a distinguished name in lower case: as given, and without needless spaces. */
export const nameVariants = (dn: string): readonly string[] => {
  const lower = dn.toLowerCase();
  const tight = tightName(lower);
  return tight === lower ? [lower] : [lower, tight];
};
