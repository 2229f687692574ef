import { getSettings } from '#domains/settings/queries.ts';
import { requestMail } from '#domains/users/mail-requests.ts';
import { button, errorSummary, type FormErrors, field, form, hidden, html, layout, notice } from '#pages/html.ts';
import { type Page, type PageResponse, page } from '#pages/page.ts';
import type { Visit } from '#pages/visit.ts';
import type { Context } from '#platform/context.ts';
import { text } from '#rest/params.ts';
import { canResetPassword, resetPassword } from '../password-reset.ts';
import { mistakeIn, newPassword, newPasswordFields, PASSWORD_LABELS } from './password-fields.ts';
import { answer, type Refusal, refusalOf } from './refusals.ts';

const ASK = '/users/password/new';
const SET = '/users/password/edit';

export const passwordResetPages: readonly Page[] = [
  page({ method: 'GET', path: ASK, auth: 'optional', run: (_ctx, _input, visit) => showAsk(visit, '', {}) }),
  page({
    method: 'POST',
    path: ASK,
    auth: 'optional',
    input: { email: text({ max: 320 }).default('') },
    run: async (ctx, { email }, visit) => {
      const address = email.trim();
      if (address === '') return showAsk(visit, '', { email: ["can't be blank"] });
      await requestMail(ctx, 'reset_password', address);
      return visit.redirect('/users/sign_in', {
        notice: 'If an account has this address, we will mail it a link. It may take a few minutes.',
      });
    },
  }),
  page({
    method: 'GET',
    path: SET,
    auth: 'optional',
    input: { reset_password_token: text({ max: 200 }).default('') },
    run: (ctx, { reset_password_token: token }, visit) => showSet(ctx, visit, token, { errors: {} }),
  }),
  page({
    method: 'POST',
    path: SET,
    auth: 'optional',
    input: { reset_password_token: text({ max: 200 }).default(''), ...newPassword },
    run: async (ctx, { reset_password_token: token, ...typed }, visit) => {
      const mistake = mistakeIn(typed);
      if (mistake) return showSet(ctx, visit, token, mistake);
      try {
        await resetPassword(ctx, token, typed.password);
      } catch (error) {
        return showSet(ctx, visit, token, refusalOf(error));
      }
      // The reset may have ended the session of this browser.
      visit.clearSessionCookie();
      return visit.redirect('/users/sign_in', { notice: 'Your password was changed. Sign in with the new one.' });
    },
  }),
];

const showAsk = (visit: Visit, email: string, errors: FormErrors): PageResponse => {
  const fields = html`!${field({
    name: 'email',
    label: 'E-mail address',
    type: 'email',
    value: email,
    autocomplete: 'email',
    hint: 'A confirmed address of your account.',
    required: true,
    autofocus: true,
    errors,
  })}
!${button('Send me a link')}`;
  const body = html`!${errorSummary(errors, { email: 'E-mail address' })}
!${form(visit, ASK, fields)}
<p class="aside"><a href="/users/sign_in">Back to sign-in</a></p>`;
  const wrong = Object.keys(errors).length > 0;
  return visit.show(layout({ title: 'Forgot your password?', visit, body }), wrong ? { status: 422 } : {});
};

const showSet = async (
  ctx: Context,
  visit: Visit,
  token: string,
  { errors, status, headers }: Refusal,
): Promise<PageResponse> => {
  if (!(await canResetPassword(ctx, token))) {
    const body = html`!${notice('error', 'This link is no longer valid. A link works once, for six hours.')}
<p><a href="${ASK}">Request a new one</a></p>`;
    return visit.show(layout({ title: 'Set a new password', visit, body }), { status: 404 });
  }
  const { minimum_password_length: least } = await getSettings(ctx);
  const fields = html`!${hidden('reset_password_token', token)}
!${newPasswordFields(least, errors)}
!${button('Set the password')}`;
  const body = html`!${errorSummary(errors, PASSWORD_LABELS)}
!${form(visit, SET, fields)}`;
  return visit.show(layout({ title: 'Set a new password', visit, body }), answer(status, headers));
};
