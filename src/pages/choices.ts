import { checkbox, type FormErrors, html } from './html.ts';

interface ChoicesOptions {
  /** Name of the parameter, without brackets. */
  readonly name: string;
  readonly legend: string;
  readonly hint?: string;
  readonly items: readonly { readonly value: string; readonly label: string; readonly hint?: string }[];
  readonly chosen: readonly string[];
  readonly errors?: FormErrors;
}

/** Returns a group of checkboxes, sent as `name[]`. */
export const choices = ({ name, legend, hint, items, chosen, errors = {} }: ChoicesOptions): string => {
  const wrong = errors[name] ?? [];
  const described = [hint ? `${name}-hint` : '', wrong.length > 0 ? `${name}-error` : ''].filter(Boolean).join(' ');
  return html`<fieldset id="${name}" tabindex="-1"!${described ? html` aria-describedby="${described}"` : ''}>
<legend>${legend}</legend>
!${hint ? html`<p class="hint" id="${name}-hint">${hint}</p>` : ''}
!${wrong.length > 0 ? html`<p class="error" id="${name}-error">${wrong.map((problem) => `${legend} ${problem}`).join(', ')}</p>` : ''}
!${items
    .map(({ value, ...item }) => checkbox({ ...item, name: `${name}[]`, value, checked: chosen.includes(value) }))
    .join('\n')}
</fieldset>`;
};
