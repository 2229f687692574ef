import { html } from './html.ts';

interface SecretOptions {
  readonly id: string;
  readonly label: string;
  readonly value: string;
}

/** Returns a field with a value that is shown only once. It is easy to select, also by keyboard. */
export const secret = ({ id, label, value }: SecretOptions): string => html`<div class="notice done" role="status">
<div class="field">
<label for="${id}">${label}</label>
<p class="hint" id="${id}-hint">Copy it now. It is shown only once.</p>
<input type="text" id="${id}" class="secret" value="${value}" readonly autofocus autocomplete="off" spellcheck="false" aria-describedby="${id}-hint">
</div>
</div>`;
