import { formErrorsOf } from '#pages/form-errors.ts';
import {
  button,
  errorSummary,
  type FormErrors,
  field,
  form,
  hidden,
  html,
  layout,
  notice,
  table,
} from '#pages/html.ts';
import { type Page, type PageResponse, page } from '#pages/page.ts';
import type { Visit } from '#pages/visit.ts';
import type { Context } from '#platform/context.ts';
import { integer, text } from '#rest/params.ts';
import { addEmail, allEmailsOfCaller, type EmailRow, getEmail, removeEmail, resendConfirmation } from './emails.ts';
import { requestMail } from './mail-requests.ts';
import { addressToConfirm, confirmEmail } from './mails/confirmation.ts';
import { requireUser } from './policy.ts';
import { getCurrentUser } from './queries.ts';

const CONFIRM = '/users/confirmation';
const ASK = '/users/confirmation/new';
const EMAILS = '/-/user_settings/emails';
const LABELS = { email: 'E-mail address' };

export const pages: readonly Page[] = [
  // GET only shows a button, because mail scanners open every link.
  page({
    method: 'GET',
    path: CONFIRM,
    auth: 'optional',
    input: { confirmation_token: text({ max: 200 }).default('') },
    run: (ctx, { confirmation_token: token }, visit) => showConfirm(ctx, visit, token),
  }),
  page({
    method: 'POST',
    path: CONFIRM,
    auth: 'optional',
    input: { confirmation_token: text({ max: 200 }).default('') },
    run: async (ctx, { confirmation_token: token }, visit) => {
      try {
        const email = await confirmEmail(ctx, token);
        const next = visit.session ? EMAILS : '/users/sign_in';
        return visit.redirect(next, { notice: `The address ${email} is confirmed.` });
      } catch (error) {
        const errors = formErrorsOf(error);
        return errors.confirmation_token ? showStale(visit) : showAsk(visit, errors);
      }
    },
  }),
  page({ method: 'GET', path: ASK, auth: 'optional', run: (_ctx, _input, visit) => showAsk(visit, {}) }),
  page({
    method: 'POST',
    path: ASK,
    auth: 'optional',
    input: { email: text({ max: 320 }).default('') },
    run: async (ctx, { email }, visit) => {
      const address = email.trim();
      if (address === '') return showAsk(visit, { email: ["can't be blank"] });
      await requestMail(ctx, 'confirm_email', address);
      return visit.redirect('/users/sign_in', {
        notice: 'If this address is waiting to be confirmed, we will mail it a link.',
      });
    },
  }),
  page({ method: 'GET', path: EMAILS, auth: 'required', run: (ctx, _input, visit) => showEmails(ctx, visit, '', {}) }),
  page({
    method: 'POST',
    path: EMAILS,
    auth: 'required',
    input: { email: text().default('') },
    run: async (ctx, { email }, visit) => {
      try {
        await addEmail(ctx, requireUser(ctx), { email: email.trim() });
      } catch (error) {
        return showEmails(ctx, visit, email, formErrorsOf(error));
      }
      return visit.redirect(EMAILS, { notice: 'We have mailed the address a link. Open it to confirm the address.' });
    },
  }),
  page({
    method: 'POST',
    path: `${EMAILS}/:id/resend`,
    auth: 'required',
    input: { id: integer() },
    run: async (ctx, { id }, visit) => {
      const { email } = await getEmail(ctx, requireUser(ctx), id);
      await resendConfirmation(ctx, id);
      return visit.redirect(EMAILS, { notice: `A new mail is on its way to ${email}.` });
    },
  }),
  page({
    method: 'POST',
    path: `${EMAILS}/:id/remove`,
    auth: 'required',
    input: { id: integer() },
    run: async (ctx, { id }, visit) => {
      const row = await getEmail(ctx, requireUser(ctx), id);
      await removeEmail(ctx, row);
      return visit.redirect(EMAILS, { notice: `The address ${row.email} was removed.` });
    },
  }),
];

const showConfirm = async (ctx: Context, visit: Visit, token: string): Promise<PageResponse> => {
  const email = await addressToConfirm(ctx, token);
  if (email === null) return showStale(visit);
  const body = html`<p>Is <strong>${email}</strong> your address?</p>
!${form(visit, CONFIRM, html`!${hidden('confirmation_token', token)}!${button('Confirm the address')}`)}`;
  return visit.show(layout({ title: 'Confirm your address', visit, body }));
};

const showStale = (visit: Visit): PageResponse => {
  const body = html`!${notice('error', 'This link is no longer valid. A link works once, for three days.')}
<p><a href="${ASK}">Request a new one</a></p>`;
  return visit.show(layout({ title: 'Confirm your address', visit, body }), { status: 404 });
};

const showAsk = (visit: Visit, errors: FormErrors): PageResponse => {
  const fields = html`!${field({
    name: 'email',
    label: LABELS.email,
    type: 'email',
    autocomplete: 'email',
    required: true,
    autofocus: true,
    errors,
  })}
!${button('Send me a link')}`;
  const body = html`!${errorSummary(errors, LABELS)}
!${form(visit, ASK, fields)}
<p class="aside"><a href="/users/sign_in">Back to sign-in</a></p>`;
  return visit.show(layout({ title: 'Confirm your address', visit, body }), statusFor(errors));
};

const showEmails = async (ctx: Context, visit: Visit, typed: string, errors: FormErrors): Promise<PageResponse> => {
  const user = await getCurrentUser(ctx);
  const secondary = await allEmailsOfCaller(ctx);
  const primary = [html`${user.email}`, user.confirmed_at === null ? 'not confirmed' : 'primary', ''];
  const fields = html`!${field({ name: 'email', label: LABELS.email, type: 'email', value: typed, autocomplete: 'email', required: true, errors })}
!${button('Add')}`;
  const body = html`<p>You can use an address once it is confirmed: to sign in, to reset your password, and in your profile and commits.</p>
!${table('Your addresses', ['Address', 'State', 'Change'], [primary, ...secondary.map((row) => cells(visit, row))])}
<h2>Add an address</h2>
!${errorSummary(errors, LABELS)}
!${form(visit, EMAILS, fields)}`;
  return visit.show(layout({ title: 'E-mail addresses', visit, body, wide: true }), statusFor(errors));
};

const cells = (visit: Visit, { id, email, confirmed_at }: EmailRow): readonly string[] => {
  const resend =
    confirmed_at === null
      ? form(
          visit,
          `${EMAILS}/${id}/resend`,
          button('Send the link again', { kind: 'plain', label: `Send the link to ${email} again` }),
        )
      : '';
  const remove = form(visit, `${EMAILS}/${id}/remove`, button('Remove', { kind: 'danger', label: `Remove ${email}` }));
  return [html`${email}`, confirmed_at === null ? 'waits to be confirmed' : 'confirmed', resend + remove];
};

const statusFor = (errors: FormErrors) => (Object.keys(errors).length > 0 ? { status: 422 } : {});
