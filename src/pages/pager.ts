import type { Page } from '#platform/paging.ts';
import { html } from './html.ts';

/**
 * Returns links to the previous and next page of the list at `path`, where `number` is the current one. Empty for a
 * single page.
 */
export const pager = (path: string, number: number, { hasNext = false }: Pick<Page<unknown>, 'hasNext'>): string => {
  const links = [
    ...(number > 1 ? [html`<li><a rel="prev" href="${path}?page=${number - 1}">Previous</a></li>`] : []),
    ...(hasNext ? [html`<li><a rel="next" href="${path}?page=${number + 1}">Next</a></li>`] : []),
  ];
  return links.length === 0 ? '' : html`<nav aria-label="Pages" class="pager"><ul>!${links.join('')}</ul></nav>`;
};
