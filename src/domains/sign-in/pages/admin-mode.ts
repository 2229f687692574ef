import { button, errorSummary, form, html, layout } from '#pages/html.ts';
import { localPath } from '#pages/local-path.ts';
import { type Page, type PageResponse, page } from '#pages/page.ts';
import type { Visit } from '#pages/visit.ts';
import type { Context } from '#platform/context.ts';
import { text } from '#rest/params.ts';
import { ADMIN_MODE_HOURS, enterAdminMode, getAdminModeToEnter, leaveAdminMode } from '../admin-mode.ts';
import { PROOF_LABELS, proof, proofFields } from './password-fields.ts';
import { answer, type Refusal, refusalOf } from './refusals.ts';
import { leadsAway, returnField } from './return-to.ts';

export const ENTER = '/admin/session/new';
const SESSION = '/admin/session';
export const LEAVE = '/admin/session/destroy';

const return_to = text().optional();

export const adminModePages: readonly Page[] = [
  page({
    method: 'GET',
    path: ENTER,
    auth: 'required',
    input: { return_to },
    run: (ctx, { return_to: returnTo }, visit) => showEnter(ctx, visit, returnTo, { errors: {} }),
  }),
  page({
    method: 'POST',
    path: SESSION,
    auth: 'required',
    input: { ...proof, return_to },
    run: async (ctx, { current_password: password, code, return_to: returnTo }, visit) => {
      try {
        visit.setSessionCookie(await enterAdminMode(ctx, { password, code }));
      } catch (error) {
        return showEnter(ctx, visit, returnTo, refusalOf(error));
      }
      return visit.redirect(localPath(returnTo) ?? '/', { notice: 'You are in admin mode.' });
    },
  }),
  page({
    method: 'POST',
    path: LEAVE,
    auth: 'required',
    run: async (ctx, _input, visit) => {
      await leaveAdminMode(ctx);
      return visit.redirect('/', { notice: 'You have left admin mode.' });
    },
  }),
];

const showEnter = async (
  ctx: Context,
  visit: Visit,
  returnTo: string | undefined,
  { errors, status, headers }: Refusal,
): Promise<PageResponse> => {
  const { entered, twoFactor } = await getAdminModeToEnter(ctx);
  if (entered) return visit.redirect(localPath(returnTo) ?? '/');
  const fields = html`!${returnField(returnTo)}
!${proofFields({ hint: 'Six digits from your authenticator, or a recovery code.', code: twoFactor, errors })}
!${button('Enter admin mode')}`;
  const body = html`<p>Until you enter admin mode you work with your own roles only. It ends after ${String(ADMIN_MODE_HOURS)} hours, when you leave it, and when you sign out.</p>
!${errorSummary(errors, PROOF_LABELS)}
!${form(visit, SESSION, fields)}
<p class="aside">If you have no password here, <a href="/users/password/new">set one by mail</a>.</p>`;
  const page = layout({ title: 'Admin mode', visit, body });
  return visit.show(page, { ...answer(status, headers), leadsAway: leadsAway(returnTo) });
};
