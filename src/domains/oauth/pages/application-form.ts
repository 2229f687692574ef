import { scopeInWords } from '#domains/tokens/scopes.ts';
import { choices } from '#pages/choices.ts';
import { button, checkbox, type FormErrors, field, form } from '#pages/html.ts';
import type { Visit } from '#pages/visit.ts';
import { boolean, list, text } from '#rest/params.ts';
import { OAUTH_SCOPES } from '../model.ts';

/** The fields that the form sends. */
export const applicationInput = {
  name: text().default(''),
  redirect_uri: text().default(''),
  scopes: list(text()).default([]),
  confidential: boolean().default(false),
  trusted: boolean().default(false),
};

export interface ApplicationDraft {
  readonly name: string;
  /** One per line. */
  readonly redirect_uri: string;
  readonly scopes: readonly string[];
  readonly confidential: boolean;
  readonly trusted: boolean;
}

export const newDraft: ApplicationDraft = {
  name: '',
  redirect_uri: '',
  scopes: [],
  confidential: true,
  trusted: false,
};

/** Converts the draft to the input of the commands. */
export const fromDraft = ({ redirect_uri, ...draft }: ApplicationDraft) => ({
  ...draft,
  redirect_uris: redirect_uri.split(/\s+/).filter((uri) => uri !== ''),
});

export const LABELS = { name: 'Name', redirect_uri: 'Redirect URIs', scopes: 'Scopes', trusted: 'Trusted' };

interface FormOptions {
  readonly action: string;
  readonly submit: string;
  readonly draft: ApplicationDraft;
  readonly errors: FormErrors;
  /** Whether it is an instance-wide application. Only those can be trusted. */
  readonly ofHub: boolean;
}

export const applicationForm = (visit: Visit, { action, submit, draft, errors, ofHub }: FormOptions): string =>
  form(
    visit,
    action,
    [
      field({
        name: 'name',
        label: LABELS.name,
        value: draft.name,
        hint: 'Users see it when they are asked to authorise the application.',
        errors,
        required: true,
        maxlength: 255,
      }),
      field({
        name: 'redirect_uri',
        label: LABELS.redirect_uri,
        value: draft.redirect_uri,
        hint: 'One per line. They must match exactly. Leave it empty if only devices use the application.',
        errors,
        rows: 3,
      }),
      checkbox({
        name: 'confidential',
        label: 'Confidential',
        checked: draft.confidential,
        hint: 'It runs on a server and can keep its secret. Clear it for programs on devices and in browsers, which use PKCE.',
      }),
      ...(ofHub
        ? [
            checkbox({
              name: 'trusted',
              label: 'Trusted',
              checked: draft.trusted,
              hint: 'Users are not asked for consent.',
            }),
          ]
        : []),
      choices({
        name: 'scopes',
        legend: LABELS.scopes,
        hint: 'The application can request only these.',
        items: OAUTH_SCOPES.map((scope) => ({ value: scope, label: scope, hint: scopeInWords(scope) })),
        chosen: draft.scopes,
        errors,
      }),
      button(submit),
    ].join('\n'),
  );
