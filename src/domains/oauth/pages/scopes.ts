import { scopeInWords } from '#domains/tokens/scopes.ts';
import { html } from '#pages/html.ts';

/** What an application may do, in words, with the names that its makers know. */
export const scopeList = (scopes: readonly string[]): string =>
  html`<ul class="scopes">
!${scopes.map((scope) => html`<li>${scopeInWords(scope)} <code>${scope}</code></li>`).join('\n')}
</ul>`;
