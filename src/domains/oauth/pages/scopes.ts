import { scopeInWords } from '#domains/tokens/scopes.ts';
import { html } from '#pages/html.ts';

/** Returns the list of scopes in words, with their technical names. */
export const scopeList = (scopes: readonly string[]): string =>
  html`<ul class="scopes">
!${scopes.map((scope) => html`<li>${scopeInWords(scope)} <code>${scope}</code></li>`).join('\n')}
</ul>`;
