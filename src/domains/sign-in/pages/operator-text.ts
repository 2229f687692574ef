import { renderText } from '#domains/markdown/html.ts';
import { html } from '#pages/html.ts';
import type { Context } from '#platform/context.ts';

/**
 * Returns the HTML of a text that the operator wrote in Markdown, such as the terms, or '' if there is none. References
 * stay text, so that everyone reads the same.
 */
export const operatorText = async (ctx: Context, text: string): Promise<string> => {
  const rendered = await renderText(ctx, { text, home: null }, { references: false });
  return rendered === '' ? '' : html`<div class="said">!${rendered}</div>`;
};
