import { plainTemplate, type RenderOptions, type Slot, type Template } from '../model.ts';
import { TooComplex } from './budget.ts';
import { MARK, type Rendering } from './env.ts';
import { fullParser, inlineParser } from './parser.ts';
import { sanitize } from './sanitizer.ts';

/**
 * Renders a text for all readers. Takes linear time, a few microseconds per character. A text that would become far
 * more than its length suggests stays plain.
 */
export const render = (text: string, inline: boolean, options: RenderOptions): Template => {
  const slots: Slot[] = [];
  const rendering: Rendering = { base: options.base, slots, headings: new Map() };
  try {
    const html = inline ? inlineParser.renderInline(text, rendering) : fullParser.render(text, rendering);
    return toTemplate(sanitize(html, slots, options).trimEnd(), slots);
  } catch (error) {
    if (error instanceof TooComplex) return plainTemplate(text, inline);
    throw error;
  }
};

/** Cuts the HTML at its slots. Those that did not survive the sanitizer are left out. */
const toTemplate = (html: string, slots: readonly Slot[]): Template => {
  const pieces = html.split(MARK);
  const kept: Slot[] = [];
  const texts: string[] = [];
  for (const [index, piece] of pieces.entries()) {
    if (index % 2 === 0) texts.push(piece);
    else {
      const slot = slots[Number(piece.slice(1))];
      if (!slot) throw new Error('a rendered text has a slot that nothing made');
      kept.push(slot);
    }
  }
  return { html: texts, slots: kept };
};
