import { getSettings } from '#domains/settings/queries.ts';
import { button, form, html, table, time } from '#pages/html.ts';
import { type Page, page } from '#pages/page.ts';
import type { Visit } from '#pages/visit.ts';
import type { Context } from '#platform/context.ts';
import { isoTime } from '#platform/time.ts';
import { integer } from '#rest/params.ts';
import { authorizedApplications, revokeAuthorization } from '../tokens.ts';
import { scopeList } from './scopes.ts';

export const authorizedPages: readonly Page[] = [
  page({
    method: 'POST',
    path: '/-/user_settings/applications/:id/revoke',
    auth: 'required',
    input: { id: integer() },
    run: async (ctx, { id }, visit) => {
      await revokeAuthorization(ctx, id);
      return visit.redirect('/-/user_settings/applications', { notice: 'The application can no longer act for you.' });
    },
  }),
];

/** Lists the applications that the caller has authorised, with scopes, date and a button to revoke access. */
export const authorizedSection = async (ctx: Context, visit: Visit): Promise<string> => {
  const authorized = await authorizedApplications(ctx);
  const { oauth_grants_end_credentials: ends } = await getSettings(ctx);
  const rows = authorized.map(({ application, scopes, created_at, last_used_at, credentials }) => [
    html`${application.name}`,
    scopes.length === 0 ? 'nothing any more' : scopeList(scopes),
    credentials === 0 ? 'nothing' : `${credentials}, ${ends ? 'revoked with it' : 'which stay'}`,
    time(isoTime(created_at)),
    last_used_at === null ? 'never' : time(isoTime(last_used_at)),
    form(
      visit,
      `/-/user_settings/applications/${application.id}/revoke`,
      button('Revoke', { kind: 'danger', label: `Revoke ${application.name}` }),
    ),
  ]);
  return html`<section aria-labelledby="authorized">
<h2 id="authorized">Authorized applications</h2>
<p>You have authorised these applications to act for you. Each can create credentials: tokens, applications, runners and webhooks.</p>
!${rows.length === 0 ? '<p class="empty">There are none.</p>' : table('Authorized applications', ['Name', 'May', 'Has made', 'Since', 'Last used', 'Actions'], rows)}
</section>`;
};
