import type { StateCore, Token } from 'markdown-it';

/** Thrown while a text is rendered that would become far more than its length suggests. It is shown as written. */
export class TooComplex extends Error {}

/** Open elements at one place. The HTML parser searches all of them for each closing tag. */
const MAX_DEPTH = 250;

/** Fails if a text has more tokens than its length justifies. */
export const limitTokens = (count: number, { length }: string): void => {
  if (count > 5_000 + 4 * length) throw new TooComplex('the text becomes too many tokens');
};

/**
 * Fails if a text has more tokens, table cells or characters in attributes than its length justifies. A row of one
 * character is filled up to the width of its table, and each use of a link definition repeats its URL.
 */
export const limitSize = ({ src, tokens }: StateCore): void => {
  let count = 0;
  let cells = 0;
  let characters = 0;
  const add = (token: Token): void => {
    count++;
    if (token.type === 'td_open') cells++;
    for (const [, value] of token.attrs ?? []) characters += String(value).length;
  };
  for (const token of tokens) {
    add(token);
    for (const child of token.children ?? []) add(child);
  }
  limitTokens(count, src);
  const { length } = src;
  if (cells > 5_000 + length || characters > 16_384 + 10 * length) {
    throw new TooComplex('the text becomes too much HTML');
  }
};

/** Returns callbacks for each opened and closed element, which fail if too many elements are open at once. */
export const limitDepth = (): { readonly onOpenTag: () => void; readonly onCloseTag: () => void } => {
  let depth = 0;
  return {
    onOpenTag: () => {
      if (++depth > MAX_DEPTH) throw new TooComplex('the HTML of the text is nested too deeply');
    },
    onCloseTag: () => {
      depth--;
    },
  };
};
