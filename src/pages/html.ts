import { html } from 'ghtml';
import { icon, stylesheet } from './assets.ts';
import type { Visit } from './visit.ts';

/** Escapes interpolated values. `!${...}` inserts raw HTML, which must come from `html` itself. */
export { html };

/** The problems of a form: sentences by field. `base` holds those that concern no single field. */
export type FormErrors = Readonly<Record<string, readonly string[]>>;

interface LayoutOptions {
  readonly title: string;
  /** Null if there is no context. The header then names no user. */
  readonly visit: Visit | null;
  /** HTML without a heading. The layout adds one from the title. */
  readonly body: string;
  /** Whether the page needs the full width, for tables. Other pages are narrow and centred. */
  readonly wide?: boolean;
}

/** Returns the whole document: header with the signed-in user, notice, and main part with the title as heading. */
export const layout = ({ title, visit, body, wide = false }: LayoutOptions): string => html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title} · Millrace</title>
<link rel="icon" href="${icon.path}" type="image/svg+xml">
<link rel="stylesheet" href="${stylesheet.path}">
</head>
<body>
<a class="skip" href="#main">Skip to the content</a>
<header>
<a class="brand" href="/">!${MARK}Millrace</a>
!${visit === null || visit.username === null ? '' : signedIn(visit, visit.username)}
</header>
<main id="main" tabindex="-1"!${wide ? ' class="wide"' : ''}>
<h1>${title}</h1>
!${visit === null || visit.notice === null ? '' : notice('done', visit.notice)}
!${body}
</main>
</body>
</html>
`;

const MARK =
  '<svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true"><circle cx="16" cy="16" r="10.5"/><circle cx="16" cy="16" r="3"/><path d="M16 1.5v11.5M16 19v11.5M1.5 16H13M19 16h11.500M5.750 5.750l8 8M18.250 18.250l8 8M26.250 5.750l-8 8M13.750 18.250l-8 8"/></svg>';

const signedIn = (visit: Visit, username: string): string => html`<nav aria-label="Account">
<ul>
<li><a href="/">@${username}</a></li>
<li>!${form(visit, '/users/sign_out', button('Sign out', { kind: 'quiet' }))}</li>
</ul>
</nav>`;

/** Returns a form that posts to the hub, with its CSRF token. */
export const form = (visit: Visit, action: string, body: string): string => html`<form method="post" action="${action}">
<input type="hidden" name="authenticity_token" value="${visit.csrfToken}">
!${body}
</form>`;

export const hidden = (name: string, value: string): string =>
  html`<input type="hidden" name="${name}" value="${value}">`;

interface FieldOptions {
  readonly name: string;
  readonly label: string;
  readonly type?: 'text' | 'email' | 'password' | 'url' | 'date' | 'number';
  readonly value?: string | null;
  /** The `autocomplete` value for password managers: `username`, `current-password`, `one-time-code`. */
  readonly autocomplete?: string;
  readonly hint?: string;
  readonly errors?: FormErrors;
  readonly required?: boolean;
  readonly autofocus?: boolean;
  readonly inputmode?: 'numeric' | 'email' | 'text';
  readonly maxlength?: number;
  /** Makes it a text area with this number of lines. */
  readonly rows?: number;
}

/** Returns a labelled input with its hint and errors. */
export const field = (options: FieldOptions): string => {
  const { name, label, type = 'text', value, autocomplete, hint, errors = {}, rows } = options;
  const wrong = errors[name] ?? [];
  const described = [hint ? `${name}-hint` : '', wrong.length > 0 ? `${name}-error` : ''].filter(Boolean).join(' ');
  const attributes = [
    html`id="${name}" name="${name}"`,
    autocomplete ? html`autocomplete="${autocomplete}"` : '',
    described ? html`aria-describedby="${described}"` : '',
    wrong.length > 0 ? 'aria-invalid="true"' : '',
    options.required ? 'required' : '',
    options.autofocus ? 'autofocus' : '',
    options.inputmode ? html`inputmode="${options.inputmode}"` : '',
    options.maxlength ? `maxlength="${options.maxlength}"` : '',
    type === 'text' || type === 'email' || type === 'url' ? 'autocapitalize="none" spellcheck="false"' : '',
  ].filter(Boolean);
  const input =
    rows === undefined
      ? html`<input type="${type}" !${attributes.join(' ')}!${value ? html` value="${value}"` : ''}>`
      : html`<textarea rows="${rows}" !${attributes.join(' ')}>${value ?? ''}</textarea>`;
  return html`<div class="field">
<label for="${name}">${label}</label>
!${hint ? html`<p class="hint" id="${name}-hint">${hint}</p>` : ''}
!${wrong.length > 0 ? html`<p class="error" id="${name}-error">${sentence(label, wrong)}</p>` : ''}
!${input}
</div>`;
};

interface CheckboxOptions {
  readonly name: string;
  readonly label: string;
  readonly value?: string;
  readonly checked?: boolean;
  readonly hint?: string;
}

/** Returns a checkbox. Several with one name (`scopes[]`) need different values. */
export const checkbox = ({ name, label, value = '1', checked = false, hint }: CheckboxOptions): string => {
  const id = `${name.replace(/\W/g, '')}-${value.replace(/\W/g, '')}`;
  return html`<div class="checkbox">
<input type="checkbox" id="${id}" name="${name}" value="${value}"!${checked ? ' checked' : ''}!${hint ? html` aria-describedby="${id}-hint"` : ''}>
<label for="${id}">${label}</label>
!${hint ? html`<p class="hint" id="${id}-hint">${hint}</p>` : ''}
</div>`;
};

interface ButtonOptions {
  /** Use `primary` once per page, and `danger` for actions that cannot be undone. */
  readonly kind?: 'primary' | 'plain' | 'danger' | 'quiet';
  readonly name?: string;
  readonly value?: string;
  /** Label for screen readers, for when several buttons of a page have the same text. */
  readonly label?: string;
}

export const button = (text: string, { kind = 'primary', name, value, label }: ButtonOptions = {}): string =>
  html`<button type="submit" class="${kind}"!${name ? html` name="${name}" value="${value ?? ''}"` : ''}!${label ? html` aria-label="${label}"` : ''}>${text}</button>`;

/** Returns a highlighted sentence. Screen readers announce it at once. */
export const notice = (kind: 'done' | 'warning' | 'error', text: string): string =>
  html`<p class="notice ${kind}" role="${kind === 'error' ? 'alert' : 'status'}">${text}</p>`;

/**
 * Returns the list of form errors, each with a link to its field, or an empty string. `labels` name the fields. An error
 * that several fields share is listed once.
 */
export const errorSummary = (errors: FormErrors, labels: Readonly<Record<string, string>> = {}): string => {
  const items = new Map<string, string>();
  for (const [name, problems] of Object.entries(errors)) {
    for (const problem of problems) {
      const text = name === 'base' ? problem : sentence(labels[name] ?? name, [problem]);
      if (items.has(text)) continue;
      items.set(text, name in labels ? html`<li><a href="#${name}">${text}</a></li>` : html`<li>${text}</li>`);
    }
  }
  if (items.size === 0) return '';
  return html`<div class="notice error" role="alert" tabindex="-1">
<h2>That did not work</h2>
<ul>!${[...items.values()].join('\n')}</ul>
</div>`;
};

/** Joins label and problem, such as `Password` and `is too short`. Keeps problems that are already sentences. */
const sentence = (label: string, problems: readonly string[]): string =>
  problems.map((problem) => (/^[A-Z]/.test(problem) ? problem : `${label} ${problem}`)).join(', ');

/**
 * Returns a table; cells are HTML. `caption` is for screen readers. On narrow screens, rows become blocks with each
 * heading beside its cell, and the roles keep it a table for screen readers.
 */
export const table = (
  caption: string,
  headings: readonly string[],
  rows: readonly (readonly string[])[],
): string => html`<table role="table">
<caption>${caption}</caption>
<thead role="rowgroup"><tr role="row">!${headings.map((heading) => html`<th role="columnheader" scope="col">${heading}</th>`)}</tr></thead>
<tbody role="rowgroup">!${rows.map((cells) => tableRow(headings, cells))}</tbody>
</table>`;

const tableRow = (headings: readonly string[], cells: readonly string[]): string =>
  html`<tr role="row">!${cells.map((cell, n) =>
    n === 0
      ? html`<th role="rowheader" scope="row">!${cell}</th>`
      : html`<td role="cell" data-label="${headings[n]}">!${cell}</td>`,
  )}</tr>`;

/** Returns a `time` element with text such as `21 Nov 2026, 01:42 UTC`. */
export const time = (iso: string): string => {
  const shown = new Date(iso).toLocaleString('en-GB', { dateStyle: 'medium', timeStyle: 'short', timeZone: 'UTC' });
  return html`<time datetime="${iso}">${shown} UTC</time>`;
};
