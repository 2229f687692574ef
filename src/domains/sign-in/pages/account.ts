import { getSettings } from '#domains/settings/queries.ts';
import { APPROVALS_PATH } from '#domains/users/model.ts';
import { getCurrentUser } from '#domains/users/queries.ts';
import { formErrorsOf } from '#pages/form-errors.ts';
import { button, errorSummary, type FormErrors, field, form, html, layout, table, time } from '#pages/html.ts';
import { type Page, type PageResponse, page } from '#pages/page.ts';
import { pager } from '#pages/pager.ts';
import type { Visit } from '#pages/visit.ts';
import type { Context } from '#platform/context.ts';
import { DEFAULT_PER_PAGE, offsetPage, readPage } from '#platform/paging.ts';
import { isoTime } from '#platform/time.ts';
import { integer, text } from '#rest/params.ts';
import { type AdminMode, getAdminMode } from '../admin-mode.ts';
import { listSessions, revokeOtherSessions, revokeSession, type SessionRow } from '../sessions.ts';
import { changeOwnPassword } from '../sign-in.ts';
import { agentInWords } from '../user-agent.ts';
import { ACCOUNT } from './account-deletion.ts';
import { ENTER, LEAVE } from './admin-mode.ts';
import { mistakeIn, newPassword, newPasswordFields, PASSWORD_LABELS } from './password-fields.ts';
import { TWO_FACTOR } from './two-factor.ts';

const SESSIONS = '/-/user_settings/active_sessions';
const PASSWORD = '/-/user_settings/password';

/** The links on the account page, including pages of other domains. */
const PLACES: readonly (readonly [string, string, string])[] = [
  [PASSWORD, 'Password', 'Set a new one'],
  [TWO_FACTOR, 'Two-factor authentication', 'A code in addition to the password, and recovery codes'],
  ['/-/user_settings/emails', 'E-mail addresses', 'Add, confirm and remove them'],
  [SESSIONS, 'Active sessions', 'Where you are signed in'],
  ['/-/user_settings/personal_access_tokens', 'Personal access tokens', 'For scripts and git'],
  ['/-/user_settings/applications', 'Applications', 'Yours, and those you have authorised'],
  [ACCOUNT, 'Delete account', 'With your projects and tokens'],
];

export const accountPages: readonly Page[] = [
  page({
    method: 'GET',
    path: '/',
    auth: 'optional',
    run: (ctx, _input, visit) => (visit.session === null ? sendHome(ctx, visit) : showHome(ctx, visit)),
  }),
  page({
    method: 'GET',
    path: SESSIONS,
    auth: 'required',
    input: { page: integer({ min: 1, max: 10_000 }).default(1) },
    run: (ctx, input, visit) => showSessions(ctx, visit, input.page),
  }),
  page({
    method: 'POST',
    path: `${SESSIONS}/:id/revoke`,
    auth: 'required',
    input: { id: integer() },
    run: async (ctx, { id }, visit) => {
      await revokeSession(ctx, id);
      return visit.redirect(SESSIONS, { notice: 'The session has ended.' });
    },
  }),
  page({
    method: 'POST',
    path: `${SESSIONS}/revoke_others`,
    auth: 'required',
    run: async (ctx, _input, visit) => {
      const ended = await revokeOtherSessions(ctx);
      return visit.redirect(SESSIONS, {
        notice: ended === 1 ? 'One other session has ended.' : `${ended} other sessions have ended.`,
      });
    },
  }),
  page({
    method: 'GET',
    path: PASSWORD,
    auth: 'required',
    run: (ctx, _input, visit) => showPassword(ctx, visit, {}),
  }),
  page({
    method: 'POST',
    path: PASSWORD,
    auth: 'required',
    input: { current_password: text().default(''), ...newPassword },
    run: async (ctx, { current_password: current, ...typed }, visit) => {
      const mistake = mistakeIn(typed);
      if (mistake) return showPassword(ctx, visit, mistake.errors);
      try {
        await changeOwnPassword(ctx, { current, password: typed.password });
      } catch (error) {
        return showPassword(ctx, visit, formErrorsOf(error));
      }
      return visit.redirect(PASSWORD, { notice: 'Your password was changed, and your other sessions have ended.' });
    },
  }),
];

/** Redirects an anonymous visitor to `home_page_url`, or to the sign-in page. */
const sendHome = async (ctx: Context, visit: Visit): Promise<PageResponse> => {
  const { home_page_url: home } = await getSettings(ctx);
  const isHere = home !== '' && new URL(home).href === new URL(ctx.services.urls.base).href;
  return visit.redirect(home === '' || isHere ? '/users/sign_in?return_to=%2F' : home);
};

const ADMINISTRATION = html`<h2>Administration</h2>
<ul class="places">
<li><a href="/admin">What the hub does</a><span>Processes, jobs, webhooks and the latest events</span></li>
<li><a href="${APPROVALS_PATH}">Accounts to approve</a><span>People who registered and wait for you</span></li>
<li><a href="/admin/applications">Applications of the hub</a><span>Register applications, and see those of all users</span></li>
</ul>`;

const showHome = async (ctx: Context, visit: Visit): Promise<PageResponse> => {
  const { name, username, email, is_admin } = await getCurrentUser(ctx);
  const body = html`<p class="who">You are signed in as <strong>${name}</strong> (@${username}, ${email})!${is_admin ? ', an administrator of this hub' : ''}.</p>
<h2>Your account</h2>
<ul class="places">
!${PLACES.map(([path, label, what]) => html`<li><a href="${path}">${label}</a><span>${what}</span></li>`).join('\n')}
</ul>
!${is_admin ? ADMINISTRATION + adminMode(visit, await getAdminMode(ctx)) : ''}
<h2>The interface</h2>
<ul class="places">
<li><a href="/-/api-docs">REST</a><span>Every endpoint, described</span></li>
<li><a href="/-/graphql-explorer">GraphQL</a><span>An explorer to try queries in</span></li>
</ul>`;
  return visit.show(layout({ title: 'Millrace', visit, body }));
};

const adminMode = (visit: Visit, { concerns, entered }: AdminMode): string => {
  if (!concerns) return '';
  return entered
    ? html`<p>You are in admin mode.</p>!${form(visit, LEAVE, button('Leave admin mode', { kind: 'plain' }))}`
    : html`<p><a href="${ENTER}">Enter admin mode</a> to administer the hub.</p>`;
};

const showSessions = async (ctx: Context, visit: Visit, number: number): Promise<PageResponse> => {
  const { items: sessions, ...rest } = await readPage(listSessions(ctx), offsetPage(number, DEFAULT_PER_PAGE));
  const body = html`<p>The browsers in which you are signed in. End any session that you do not recognise, then <a href="${PASSWORD}">change your password</a>.</p>
!${table(
    'Active sessions',
    ['Program', 'Address', 'Signed in', 'Last used', 'End'],
    sessions.map((session) => sessionCells(visit, session)),
  )}
!${pager(SESSIONS, number, rest)}
!${sessions.length > 1 || number > 1 ? form(visit, `${SESSIONS}/revoke_others`, button('End all other sessions', { kind: 'danger' })) : ''}`;
  return visit.show(layout({ title: 'Active sessions', visit, body, wide: true }));
};

const sessionCells = (visit: Visit, session: SessionRow): readonly string[] => {
  const program = agentInWords(session.user_agent);
  return [
    html`${program}`,
    html`${session.ip ?? 'unknown'}`,
    time(isoTime(session.created_at)),
    time(isoTime(session.last_used_at)),
    session.id === visit.session?.id
      ? '<em>This session</em>'
      : form(
          visit,
          `${SESSIONS}/${session.id}/revoke`,
          button('End', {
            kind: 'plain',
            label: `End the session of ${program} at ${session.ip ?? 'an unknown address'}`,
          }),
        ),
  ];
};

const LABELS = { current_password: 'Present password', ...PASSWORD_LABELS };

const showPassword = async (ctx: Context, visit: Visit, errors: FormErrors): Promise<PageResponse> => {
  const { minimum_password_length: least } = await getSettings(ctx);
  const fields = html`!${field({
    name: 'current_password',
    label: LABELS.current_password,
    type: 'password',
    autocomplete: 'current-password',
    required: true,
    errors,
  })}
!${newPasswordFields(least, errors)}
!${button('Change the password')}`;
  const body = html`!${errorSummary(errors, LABELS)}
!${form(visit, PASSWORD, fields)}
<p class="aside">Your other sessions end when the password changes. Tokens and applications keep working.</p>`;
  const status = Object.keys(errors).length > 0 ? 422 : 200;
  return visit.show(layout({ title: 'Password', visit, body }), { status });
};
