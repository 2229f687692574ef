import { type FormErrors, field } from '#pages/html.ts';
import { text } from '#rest/params.ts';
import type { Refusal } from './refusals.ts';

/** The input of a form with a new password, typed twice. */
export const newPassword = { password: text().default(''), password_confirmation: text().default('') };

export const PASSWORD_LABELS = { password: 'New password', password_confirmation: 'New password again' };

/** Returns the refusal of two passwords that differ. */
export const mistakeIn = (typed: {
  readonly password: string;
  readonly password_confirmation: string;
}): Refusal | null =>
  typed.password === typed.password_confirmation
    ? null
    : { status: 422, errors: { password_confirmation: ['is not the same password'] } };

/** Returns the two fields for a new password. */
export const newPasswordFields = (least: number, errors: FormErrors): string =>
  [
    field({
      name: 'password',
      label: PASSWORD_LABELS.password,
      type: 'password',
      hint: `At least ${least} characters.`,
      autocomplete: 'new-password',
      required: true,
      errors,
    }),
    field({
      name: 'password_confirmation',
      label: PASSWORD_LABELS.password_confirmation,
      type: 'password',
      autocomplete: 'new-password',
      required: true,
      errors,
    }),
  ].join('\n');

/** The input of a form that asks for the password, and for a code if the account has a second factor. */
export const proof = { current_password: text().default(''), code: text({ max: 100 }).default('') };

export const PROOF_LABELS = { current_password: 'Your password', code: 'Code' };

interface ProofFields {
  readonly hint: string;
  readonly code?: boolean;
  readonly errors: FormErrors;
}

/** Returns the fields for the password and, unless `code` is false, the code with this hint. */
export const proofFields = ({ hint, code = true, errors }: ProofFields): string =>
  [
    field({
      name: 'current_password',
      label: PROOF_LABELS.current_password,
      type: 'password',
      autocomplete: 'current-password',
      required: true,
      errors,
    }),
    ...(code
      ? [
          field({
            name: 'code',
            label: PROOF_LABELS.code,
            autocomplete: 'one-time-code',
            hint,
            required: true,
            maxlength: 100,
            errors,
          }),
        ]
      : []),
  ].join('\n');
