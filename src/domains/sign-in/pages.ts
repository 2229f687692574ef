import { getSettings } from '#domains/settings/queries.ts';
import { isRegistrationOpen } from '#domains/users/registration.ts';
import { button, errorSummary, field, form, html, layout, notice } from '#pages/html.ts';
import { localPath } from '#pages/local-path.ts';
import { type Page, type PageResponse, page } from '#pages/page.ts';
import type { Visit } from '#pages/visit.ts';
import type { Context } from '#platform/context.ts';
import { boolean, text } from '#rest/params.ts';
import { mistakeIn, newPassword, newPasswordFields, PASSWORD_LABELS } from './pages/password-fields.ts';
import { answer, type Refusal, refusalOf } from './pages/refusals.ts';
import { leadsAway, returnField, withReturn } from './pages/return-to.ts';
import { endSession } from './sessions.ts';
import {
  NO_PASSWORDS,
  type SignInStep,
  STEP_SECONDS,
  signIn,
  signInBySecondFactor,
  signInWithNewPassword,
} from './sign-in.ts';

const SIGN_IN = '/users/sign_in';
const SECOND_FACTOR = '/users/sign_in/second_factor';
const NEW_PASSWORD = '/users/sign_in/new_password';
/** A sealed cookie with the pending sign-in step. */
const PENDING = 'millrace_sign_in';

/** The page that the user wanted. Every step passes it on. */
const return_to = text().optional();

export const signInPages: readonly Page[] = [
  page({
    method: 'GET',
    path: SIGN_IN,
    auth: 'optional',
    // `again` makes signed-in users re-authenticate with their password.
    input: { return_to, again: boolean().default(false) },
    run: (ctx, { return_to: returnTo, again }, visit) =>
      visit.username !== null && !again
        ? visit.redirect(localPath(returnTo) ?? '/')
        : showSignIn(ctx, visit, { returnTo, login: visit.username ?? '' }),
  }),
  page({
    method: 'POST',
    path: SIGN_IN,
    auth: 'optional',
    input: { login: text().default(''), password: text().default(''), return_to },
    run: async (ctx, { login, password, return_to: returnTo }, visit) => {
      const errors: Record<string, string[]> = {};
      if (login.trim() === '') errors.login = ["can't be blank"];
      if (password === '') errors.password = ["can't be blank"];
      if (Object.keys(errors).length > 0) return showSignIn(ctx, visit, { login, returnTo, errors, status: 422 });
      try {
        return lead(visit, await signIn(ctx, { login: login.trim(), password }), returnTo);
      } catch (error) {
        const refusal = refusalOf(error, { password: ['Invalid login or password.'] });
        return showSignIn(ctx, visit, { login, returnTo, ...refusal });
      }
    },
  }),
  page({
    method: 'GET',
    path: SECOND_FACTOR,
    auth: 'optional',
    input: { return_to },
    run: (_ctx, { return_to: returnTo }, visit) =>
      visit.readSealed(PENDING) === null ? begin(visit, returnTo) : showSecondFactor(visit, { returnTo, errors: {} }),
  }),
  page({
    method: 'POST',
    path: SECOND_FACTOR,
    auth: 'optional',
    input: { code: text({ max: 100 }).default(''), return_to },
    run: async (ctx, { code, return_to: returnTo }, visit) => {
      const pending = visit.readSealed(PENDING);
      if (pending === null) return begin(visit, returnTo);
      try {
        const step = await signInBySecondFactor(ctx, pending, code);
        return step === null ? begin(visit, returnTo) : lead(visit, step, returnTo);
      } catch (error) {
        return showSecondFactor(visit, { returnTo, ...refusalOf(error, { code: ['This code is wrong.'] }) });
      }
    },
  }),
  page({
    method: 'GET',
    path: NEW_PASSWORD,
    auth: 'optional',
    input: { return_to },
    run: (ctx, { return_to: returnTo }, visit) =>
      visit.readSealed(PENDING) === null
        ? begin(visit, returnTo)
        : showNewPassword(ctx, visit, { returnTo, errors: {} }),
  }),
  page({
    method: 'POST',
    path: NEW_PASSWORD,
    auth: 'optional',
    input: { ...newPassword, return_to },
    run: async (ctx, { return_to: returnTo, ...typed }, visit) => {
      const pending = visit.readSealed(PENDING);
      if (pending === null) return begin(visit, returnTo);
      const mistake = mistakeIn(typed);
      if (mistake) return showNewPassword(ctx, visit, { returnTo, ...mistake });
      try {
        const step = await signInWithNewPassword(ctx, pending, typed.password);
        return step === null ? begin(visit, returnTo) : lead(visit, step, returnTo);
      } catch (error) {
        return showNewPassword(ctx, visit, { returnTo, ...refusalOf(error) });
      }
    },
  }),
  page({
    method: 'POST',
    path: '/users/sign_out',
    auth: 'optional',
    run: async (ctx, _input, visit) => {
      await endSession(ctx);
      visit.clearSessionCookie();
      const { after_sign_out_path: target } = await getSettings(ctx);
      return target === '' || target.startsWith('/')
        ? visit.redirect(target || SIGN_IN, { notice: 'You have signed out.' })
        : showSignedOut(visit, target);
    },
  }),
];

/** Redirects to the next step and sets its cookies. */
export const lead = (visit: Visit, step: SignInStep, returnTo: string | undefined): PageResponse => {
  if (step.step !== 'signed_in') {
    visit.seal(PENDING, step.pending, STEP_SECONDS);
    return visit.redirect(withReturn(step.step === 'second_factor' ? SECOND_FACTOR : NEW_PASSWORD, returnTo));
  }
  visit.forget(PENDING);
  visit.setSessionCookie(step.value);
  return visit.redirect(localPath(returnTo) ?? '/');
};

/** Redirects to the start when a step has expired or belongs to another browser. */
export const begin = (visit: Visit, returnTo: string | undefined): PageResponse => {
  visit.forget(PENDING);
  return visit.redirect(withReturn(SIGN_IN, returnTo), { notice: 'That took too long. Please sign in again.' });
};

interface Step extends Refusal {
  readonly returnTo: string | undefined;
}

interface SignInForm extends Partial<Refusal> {
  readonly login: string;
  readonly returnTo: string | undefined;
}

const LOGIN_LABELS = { login: 'User name or e-mail address', password: 'Password' };

const showSignIn = async (ctx: Context, visit: Visit, shown: SignInForm): Promise<PageResponse> => {
  const { errors = {}, login, returnTo, status, headers } = shown;
  const { password_authentication_enabled_for_web: enabled } = await getSettings(ctx);
  const open = await isRegistrationOpen(ctx);
  const fields = html`!${returnField(returnTo)}
!${field({ name: 'login', label: LOGIN_LABELS.login, value: login, autocomplete: 'username', required: true, autofocus: login === '', errors })}
!${field({ name: 'password', label: LOGIN_LABELS.password, type: 'password', autocomplete: 'current-password', required: true, autofocus: login !== '', errors })}
!${button('Sign in')}`;
  const body = enabled
    ? html`!${errorSummary(errors, LOGIN_LABELS)}
!${form(visit, SIGN_IN, fields)}
<p class="aside"><a href="/users/password/new">Forgot your password?</a></p>
!${open ? html`<p class="aside"><a href="/users/sign_up">No account yet? Register</a></p>` : ''}`
    : notice('warning', NO_PASSWORDS);
  const page = layout({ title: 'Sign in', visit, body: body + otherWays(ctx, returnTo) });
  return visit.show(page, { ...answer(status, headers), leadsAway: leadsAway(returnTo) });
};

/** Links to the other ways to sign in. */
const otherWays = ({ services: { config } }: Context, returnTo: string | undefined): string => {
  const ways = config.ldapServers.map(({ name, label }) => ({ path: `/users/auth/ldap/${name}`, label }));
  if (config.samlEntryPoint !== null) ways.push({ path: '/users/auth/saml', label: config.samlLabel });
  return ways
    .map(
      ({ path, label }) =>
        html`<p><a class="button" href="${withReturn(path, returnTo)}">Sign in with ${label}</a></p>`,
    )
    .join('\n');
};

const showSecondFactor = (visit: Visit, { returnTo, errors, status, headers }: Step): PageResponse => {
  const fields = html`!${returnField(returnTo)}
!${field({
    name: 'code',
    label: 'Code',
    hint: 'Six digits from your authenticator, or one of your recovery codes.',
    autocomplete: 'one-time-code',
    required: true,
    autofocus: true,
    errors,
  })}
!${button('Verify')}`;
  const body = html`!${errorSummary(errors, { code: 'Code' })}
!${form(visit, SECOND_FACTOR, fields)}
<p class="aside"><a href="${withReturn(SIGN_IN, returnTo)}">Sign in as another user</a></p>`;
  const page = layout({ title: 'Confirm your identity', visit, body });
  return visit.show(page, { ...answer(status, headers), leadsAway: leadsAway(returnTo) });
};

const showNewPassword = async (
  ctx: Context,
  visit: Visit,
  { returnTo, errors, status, headers }: Step,
): Promise<PageResponse> => {
  const { minimum_password_length: least } = await getSettings(ctx);
  const body = html`<p>Your password was set by an administrator or must be renewed. Choose a new one.</p>
!${errorSummary(errors, PASSWORD_LABELS)}
!${form(
    visit,
    NEW_PASSWORD,
    html`!${returnField(returnTo)}
!${newPasswordFields(least, errors)}!${button('Set the password and sign in')}`,
  )}`;
  const page = layout({ title: 'Choose a new password', visit, body });
  return visit.show(page, { ...answer(status, headers), leadsAway: leadsAway(returnTo) });
};

/** Browsers apply `form-action` to a redirect that answers a form. So a refresh leads the user to another host. */
const showSignedOut = (visit: Visit, target: string): PageResponse => {
  const body = html`<p>You have signed out. <a href="${target}">Continue to ${target}</a></p>`;
  return visit.show(layout({ title: 'Signed out', visit, body }), { headers: { Refresh: `0; url=${target}` } });
};
