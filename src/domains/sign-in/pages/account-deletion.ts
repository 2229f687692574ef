import { getSettings } from '#domains/settings/queries.ts';
import { getCurrentUser } from '#domains/users/queries.ts';
import { button, errorSummary, form, html, layout, notice } from '#pages/html.ts';
import { type Page, type PageResponse, page } from '#pages/page.ts';
import type { Visit } from '#pages/visit.ts';
import type { Context } from '#platform/context.ts';
import { DELETION_DISABLED, deleteOwnAccount } from '../account-deletion.ts';
import { PROOF_LABELS, proof, proofFields } from './password-fields.ts';
import { answer, type Refusal, refusalOf } from './refusals.ts';

export const ACCOUNT = '/-/user_settings/account';

export const accountDeletionPages: readonly Page[] = [
  page({
    method: 'GET',
    path: ACCOUNT,
    auth: 'required',
    run: (ctx, _input, visit) => showDeletion(ctx, visit, { errors: {} }),
  }),
  page({
    method: 'POST',
    path: ACCOUNT,
    auth: 'required',
    input: proof,
    run: async (ctx, { current_password: password, code }, visit) => {
      try {
        await deleteOwnAccount(ctx, { password, code });
      } catch (error) {
        return showDeletion(ctx, visit, refusalOf(error));
      }
      visit.clearSessionCookie();
      return visit.redirect('/users/sign_in', { notice: 'Your account was deleted.' });
    },
  }),
];

const showDeletion = async (
  ctx: Context,
  visit: Visit,
  { errors, status, headers }: Refusal,
): Promise<PageResponse> => {
  const { allow_account_deletion: allowed } = await getSettings(ctx);
  const { two_factor_enabled: twoFactor } = await getCurrentUser(ctx);
  const fields = html`!${proofFields({ hint: 'Six digits from your authenticator, or a recovery code.', code: twoFactor, errors })}
!${button('Delete my account', { kind: 'danger' })}`;
  const body = allowed
    ? html`!${errorSummary(errors, PROOF_LABELS)}
<p>This deletes your account, your personal projects, your tokens and your applications. It cannot be undone. What you wrote in other projects stays, under the name of a ghost user.</p>
!${form(visit, ACCOUNT, fields)}
<p class="aside">If you have no password here, <a href="/users/password/new">set one by mail</a>.</p>`
    : notice('warning', DELETION_DISABLED);
  return visit.show(layout({ title: 'Delete account', visit, body }), answer(status, headers));
};
