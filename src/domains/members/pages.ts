import { roleName } from '#domains/access/model.ts';
import { button, form, html, layout } from '#pages/html.ts';
import { type Page, page } from '#pages/page.ts';
import { text } from '#rest/params.ts';
import { acceptInvitation, invitationOf } from './invitations.ts';

const INVITE = '/-/invites';
const input = { token: text({ max: 200 }) };

export const pages: readonly Page[] = [
  // GET only shows a button, because mail scanners open every link.
  page({
    method: 'GET',
    path: `${INVITE}/:token`,
    auth: 'required',
    input,
    run: async (ctx, { token }, visit) => {
      const found = await invitationOf(ctx, token);
      if (!found) {
        const body = html`<p>This invitation has already been accepted or revoked.</p>`;
        return visit.show(layout({ title: 'Invitation', visit, body }), { status: 404 });
      }
      const body = html`<p>You are invited to the ${found.kind} <strong>${found.name}</strong> as ${roleName(found.invitation.access_level)}.</p>
<p>If you accept, those who manage its members learn that ${found.invitation.email} is your address.</p>
!${form(visit, `${INVITE}/${encodeURIComponent(token)}`, button('Accept the invitation'))}`;
      return visit.show(layout({ title: 'Invitation', visit, body }));
    },
  }),
  page({
    method: 'POST',
    path: `${INVITE}/:token`,
    auth: 'required',
    input,
    run: async (ctx, { token }, visit) => {
      await acceptInvitation(ctx, token);
      return visit.redirect('/', { notice: 'You are now a member.' });
    },
  }),
];
