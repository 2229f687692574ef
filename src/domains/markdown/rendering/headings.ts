import type { StateCore, Token } from 'markdown-it';
import { renderingOf } from './env.ts';

const MAX_ID = 200;

/** Gives headings an id made of their text, and an anchor that links to it. A second one of the same id gets a number. */
export const addHeadingIds = (state: StateCore): void => {
  const { headings } = renderingOf(state);
  for (const [index, heading] of state.tokens.entries()) {
    const inline = state.tokens[index + 1];
    if (heading.type !== 'heading_open' || !inline?.children) continue;
    const name = idOf(inline.children);
    if (name === '') continue;
    const count = headings.get(name) ?? 0;
    headings.set(name, count + 1);
    const id = count === 0 ? name : `${name}-${count}`;
    heading.attrSet('id', id);
    const anchor = new state.Token('html_inline', '', 0);
    // The id has only letters, digits, `_` and `-`.
    anchor.content = `<a href="#${id}" class="anchor" aria-hidden="true"></a>`;
    inline.children.push(anchor);
  }
};

const idOf = (tokens: readonly Token[]): string =>
  tokens
    .filter(({ type }) => type === 'text' || type === 'text_special' || type === 'code_inline')
    .map(({ content }) => content)
    .join('')
    .trim()
    .toLowerCase()
    .replace(/[^\p{L}\p{M}\p{N}_ -]/gu, '')
    .replace(/[ -]+/g, '-')
    .slice(0, MAX_ID)
    .toWellFormed();
