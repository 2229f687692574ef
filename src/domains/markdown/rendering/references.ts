import type { StateCore, Token } from 'markdown-it';
import type { Reference, Slot } from '../model.ts';
import { scanText, scanUrl } from '../scanning.ts';
import { type Rendering, renderingOf } from './env.ts';

/** More references of one text stay text. */
const MAX_REFERENCES = 1_000;

/** Replaces references outside code and links with slots, and bare URLs of the hub likewise. */
export const addReferences = (state: StateCore): void => {
  const rendering = renderingOf(state);
  for (const block of state.tokens) {
    if (block.type === 'inline' && block.children) block.children = withReferences(state, rendering, block.children);
  }
};

const withReferences = (state: StateCore, rendering: Rendering, tokens: readonly Token[]): Token[] => {
  const all: Token[] = [];
  /** The number of links, code and other elements around that keep their text as it is. */
  let closed = 0;
  for (let index = 0; index < tokens.length; index++) {
    const token = tokens[index];
    if (!token) continue;
    if (token.type === 'link_open') closed++;
    if (token.type === 'link_close') closed--;
    if (token.type === 'html_inline') closed = Math.max(0, closed + opened(token.content));
    const isUrl = token.type === 'link_open' && token.info === 'auto' && closed === 1;
    const reference = isUrl ? scanUrl(String(token.attrGet('href')), rendering.base) : null;
    if (reference && tokens[index + 2]?.type === 'link_close' && rendering.slots.length < MAX_REFERENCES) {
      all.push(slotToken(state, rendering.slots, reference, token.level));
      closed--;
      index += 2;
    } else if (token.type === 'text' && closed === 0) {
      all.push(...split(state, rendering.slots, token, lastCharacters(all.at(-1))));
    } else all.push(token);
  }
  return all;
};

/** Elements of raw HTML whose text has no references. */
const OPENING = /^<(?:a|code|pre|kbd|samp|tt|var)[\s>]/i;
const CLOSING = /^<\/(?:a|code|pre|kbd|samp|tt|var)\s*>/i;
const opened = (html: string): number => (OPENING.test(html) ? 1 : CLOSING.test(html) ? -1 : 0);

/** Escaped characters and text right before belong to the same word. Elements end a word. */
const lastCharacters = (token: Token | undefined): string =>
  token?.type === 'text' || token?.type === 'text_special' ? token.content.slice(-2) : '';

const split = (state: StateCore, slots: Slot[], token: Token, before: string): Token[] => {
  const found = scanText(token.content, before).slice(0, MAX_REFERENCES - slots.length);
  if (found.length === 0) return [token];
  const parts: Token[] = [];
  let done = 0;
  for (const { start, end, reference } of found) {
    if (start > done) parts.push(textToken(state, token.content.slice(done, start), token.level));
    parts.push(slotToken(state, slots, reference, token.level));
    done = end;
  }
  if (done < token.content.length) parts.push(textToken(state, token.content.slice(done), token.level));
  return parts;
};

const textToken = ({ Token: Made }: StateCore, content: string, level: number): Token => {
  const token = new Made('text', '', 0);
  token.content = content;
  token.level = level;
  return token;
};

/** The content of a slot's token is the index of the slot. */
const slotToken = ({ Token: Made }: StateCore, slots: Slot[], reference: Reference, level: number): Token => {
  const token = new Made('reference', '', 0);
  token.content = String(slots.push(reference) - 1);
  token.level = level;
  return token;
};
