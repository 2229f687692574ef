import { getSettings } from '#domains/settings/queries.ts';
import {
  confirmSignUp,
  findSignUp,
  isRegistrationOpen,
  REGISTRATION_CLOSED,
  type Registration,
  register,
} from '#domains/users/registration.ts';
import { button, errorSummary, field, form, hidden, html, layout, notice } from '#pages/html.ts';
import { type Page, type PageResponse, page } from '#pages/page.ts';
import type { Visit } from '#pages/visit.ts';
import type { Context } from '#platform/context.ts';
import { text } from '#rest/params.ts';
import { operatorText } from './operator-text.ts';
import { mistakeIn, newPassword, newPasswordFields, PASSWORD_LABELS } from './password-fields.ts';
import { answer, type Refusal, refusalOf } from './refusals.ts';

const SIGN_UP = '/users/sign_up';
const NEXT = '/users/sign_up/next';
const CONFIRM = '/users/sign_up/confirm';

const confirmation_token = text({ max: 200 }).default('');

export const signUpPages: readonly Page[] = [
  page({
    method: 'GET',
    path: SIGN_UP,
    auth: 'optional',
    run: (ctx, _input, visit) =>
      visit.username === null
        ? showSignUp(ctx, visit, { name: '', username: '', email: '', errors: {} })
        : visit.redirect('/'),
  }),
  page({
    method: 'POST',
    path: SIGN_UP,
    auth: 'optional',
    input: {
      name: text().default(''),
      username: text().default(''),
      email: text().default(''),
      password: text().default(''),
    },
    run: async (ctx, { password, ...typed }, visit) => {
      const person = { name: typed.name.trim(), username: typed.username.trim(), email: typed.email.trim() };
      try {
        await register(ctx, { ...person, password });
      } catch (error) {
        return showSignUp(ctx, visit, { ...person, ...refused(error) });
      }
      return visit.redirect(NEXT);
    },
  }),
  // The same for everyone, so that it does not reveal whether an account has the address.
  page({ method: 'GET', path: NEXT, auth: 'optional', run: (ctx, _input, visit) => showNext(ctx, visit) }),
  // GET creates nothing, because mail scanners open every link.
  page({
    method: 'GET',
    path: CONFIRM,
    auth: 'optional',
    input: { confirmation_token },
    run: (ctx, { confirmation_token: token }, visit) => showConfirm(ctx, visit, token, { errors: {} }),
  }),
  page({
    method: 'POST',
    path: CONFIRM,
    auth: 'optional',
    input: { confirmation_token, username: text().optional(), ...newPassword },
    run: async (ctx, { confirmation_token: token, ...typed }, visit) => {
      const username = typed.username?.trim();
      const mistake = mistakeIn(typed);
      if (mistake) return showConfirm(ctx, visit, token, { ...mistake, username });
      try {
        const { state } = await confirmSignUp(ctx, token, { password: typed.password, username });
        return visit.redirect('/users/sign_in', {
          notice: state === 'active' ? CREATED : `Your account was created. ${WAITS}`,
        });
      } catch (error) {
        return showConfirm(ctx, visit, token, { ...refused(error), username });
      }
    },
  }),
];

const CREATED = 'Your account was created. Sign in.';
const WAITS = 'An administrator must approve it before you can sign in. You will get a mail.';
const LABELS = { name: 'Name', username: 'User name', email: 'E-mail address', password: 'Password' };
const CONFIRM_LABELS = { ...LABELS, ...PASSWORD_LABELS };

const refused = (error: unknown): Refusal => refusalOf(error, undefined, 'There were too many registrations.');

interface ConfirmForm extends Refusal {
  /** The name that the person entered instead of the one they registered. */
  readonly username?: string | undefined;
}

interface SignUpForm extends Refusal, Omit<Registration, 'password'> {}

const showSignUp = async (ctx: Context, visit: Visit, shown: SignUpForm): Promise<PageResponse> => {
  if (!(await isRegistrationOpen(ctx))) return showClosed(visit);
  const { name, username, email, errors, status, headers } = shown;
  const { minimum_password_length: least, send_user_confirmation_email: confirming } = await getSettings(ctx);
  // With a mailed link, the person who opens it chooses the password. Otherwise the password of somebody else would work.
  const password = confirming
    ? ''
    : field({
        name: 'password',
        label: LABELS.password,
        type: 'password',
        hint: `At least ${least} characters.`,
        autocomplete: 'new-password',
        required: true,
        errors,
      });
  const fields = html`!${field({ name: 'name', label: LABELS.name, value: name, autocomplete: 'name', maxlength: 255, required: true, autofocus: true, errors })}
!${field({ name: 'username', label: LABELS.username, value: username, autocomplete: 'username', hint: 'It is in the address of your profile and projects.', maxlength: 255, required: true, errors })}
!${field({ name: 'email', label: LABELS.email, type: 'email', value: email, autocomplete: 'email', maxlength: 254, required: true, errors })}
!${password}
!${button('Register')}`;
  const body = html`!${errorSummary(errors, LABELS)}
!${form(visit, SIGN_UP, fields)}
<p class="aside"><a href="/users/sign_in">You have an account? Sign in</a></p>`;
  return visit.show(layout({ title: 'Register', visit, body }), answer(status, headers));
};

const showClosed = (visit: Visit): PageResponse => {
  const body = html`!${notice('warning', REGISTRATION_CLOSED)}
<p><a href="/users/sign_in">Back to sign-in</a></p>`;
  return visit.show(layout({ title: 'Register', visit, body }), { status: 403 });
};

const showNext = async (ctx: Context, visit: Visit): Promise<PageResponse> => {
  if (!(await isRegistrationOpen(ctx))) return showClosed(visit);
  const settings = await getSettings(ctx);
  const steps = [
    settings.send_user_confirmation_email
      ? 'We have mailed you a link. Open it within three days to choose a password and create the account. If the address already has an account, the mail says so.'
      : 'Your account was created. We have mailed you a link to confirm your address.',
    ...(settings.require_admin_approval_after_user_signup ? [WAITS] : []),
  ];
  const body = html`!${steps.map((step) => html`<p>${step}</p>`).join('\n')}
!${await operatorText(ctx, settings.after_sign_up_text)}
<p><a href="/users/sign_in">To sign-in</a></p>`;
  return visit.show(layout({ title: 'Almost done', visit, body }));
};

const showConfirm = async (
  ctx: Context,
  visit: Visit,
  token: string,
  { errors, status, headers, username }: ConfirmForm,
): Promise<PageResponse> => {
  if (!(await isRegistrationOpen(ctx))) return showClosed(visit);
  const found = await findSignUp(ctx, token);
  if (found === null) {
    const body = html`!${notice('error', 'This link is no longer valid. A link works once, for three days.')}
<p><a href="${SIGN_UP}">Register again</a></p>`;
    return visit.show(layout({ title: 'Confirm your registration', visit, body }), { status: 404 });
  }
  // Somebody else may have taken the name since.
  const renames = username !== undefined || errors.username !== undefined || errors.base !== undefined;
  const rename = renames
    ? field({
        name: 'username',
        label: LABELS.username,
        value: username ?? found.username,
        autocomplete: 'username',
        required: true,
        autofocus: true,
        errors,
      })
    : '';
  const { minimum_password_length: least } = await getSettings(ctx);
  const fields = html`!${hidden('confirmation_token', token)}
!${rename}
!${newPasswordFields(least, errors)}
!${button('Create the account')}`;
  const body = html`!${errorSummary(errors, CONFIRM_LABELS)}
<p>Choose a password for the account <strong>${found.username}</strong> of <strong>${found.email}</strong>.</p>
!${form(visit, CONFIRM, fields)}
<p class="aside">If you did not register, close this page: there will be no account.</p>`;
  return visit.show(layout({ title: 'Confirm your registration', visit, body }), answer(status, headers));
};
