import { RE2JS } from 're2js';

/** Limits the memory use and the compile time of an expression. */
const MAX_LENGTH = 2_000;
const MAX_PROGRAM_SIZE = 2_000;

const LITERAL = /^\/([\s\S]+)\/([ismU]*)$/;
const FLAGS: Readonly<Record<string, number>> = {
  i: RE2JS.CASE_INSENSITIVE,
  s: RE2JS.DOTALL,
  m: RE2JS.MULTILINE,
};

/** Whether the text is written as an expression: `/.../`, perhaps with flags. */
export const isRegexLiteral = (text: string): boolean => LITERAL.test(text);

/** Returns the source between the slashes; null if the text is not written as an expression. */
export const regexSource = (text: string): string | null => LITERAL.exec(text)?.[1] ?? null;

/**
 * Returns a test for `/source/flags` in RE2 syntax, which runs in linear time. Null if the text is not written so, or
 * is not a valid expression.
 */
export const compileRegex = (text: string): ((subject: string) => boolean) | null => {
  const literal = LITERAL.exec(text);
  if (!literal || text.length > MAX_LENGTH) return null;
  const [, source = '', flags = ''] = literal;
  // `\/` is the slash that could otherwise end the expression.
  const plain = source.replaceAll('\\/', '/');
  try {
    const given = flags.includes('U') ? `(?U)${plain}` : plain;
    const compiled = RE2JS.compile(
      given,
      [...flags].reduce((sum, flag) => sum | (FLAGS[flag] ?? 0), 0),
    );
    return compiled.programSize() > MAX_PROGRAM_SIZE ? null : (subject) => compiled.test(subject);
  } catch {
    return null;
  }
};
