/** A distinguished name without the spaces around its separators, which mean nothing (RFC 4514 §2). */
export const tightName = (dn: string): string => dn.replace(/(?<!\\)\s*([,=+])\s*/g, '$1').trim();

/** The ways in which one distinguished name may be written, in lower case: as given, and without needless spaces. */
export const nameVariants = (dn: string): readonly string[] => {
  const lower = dn.toLowerCase();
  const tight = tightName(lower);
  return tight === lower ? [lower] : [lower, tight];
};
