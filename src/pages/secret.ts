import { html } from './html.ts';

interface SecretOptions {
  readonly id: string;
  readonly label: string;
  readonly value: string;
}

/** A value that is shown this once: easy to select, by keyboard too. */
export const secret = ({ id, label, value }: SecretOptions): string => html`<div class="notice done" role="status">
<div class="field">
<label for="${id}">${label}</label>
<p class="hint" id="${id}-hint">Copy it now. It is shown this once and cannot be read again.</p>
<input type="text" id="${id}" class="secret" value="${value}" readonly autofocus autocomplete="off" spellcheck="false" aria-describedby="${id}-hint">
</div>
</div>`;
