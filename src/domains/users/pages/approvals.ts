import { button, form, html, layout, table, time } from '#pages/html.ts';
import { type Page, type PageResponse, page } from '#pages/page.ts';
import { pager } from '#pages/pager.ts';
import type { Visit } from '#pages/visit.ts';
import type { Context } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { DEFAULT_PER_PAGE, offsetPage, readPage } from '#platform/paging.ts';
import { isoTime } from '#platform/time.ts';
import { integer } from '#rest/params.ts';
import { APPROVALS_PATH } from '../model.ts';
import { listUsers, type UserRow } from '../queries.ts';
import { moveUser, rejectUser } from '../states.ts';

/** The page on which administrators approve or reject the accounts that people registered. */
export const approvalPages: readonly Page[] = [
  page({
    method: 'GET',
    path: APPROVALS_PATH,
    auth: 'administrator',
    input: { page: integer({ min: 1, max: 10_000 }).default(1) },
    run: (ctx, { page: number }, visit) => show(ctx, visit, number),
  }),
  page({
    method: 'POST',
    path: `${APPROVALS_PATH}/:id/approve`,
    auth: 'administrator',
    input: { id: integer() },
    run: (ctx, { id }, visit) =>
      answer(visit, async () => `${(await moveUser(ctx, id, 'approve')).user.username} was approved.`),
  }),
  page({
    method: 'POST',
    path: `${APPROVALS_PATH}/:id/reject`,
    auth: 'administrator',
    input: { id: integer() },
    run: (ctx, { id }, visit) =>
      answer(visit, async () => {
        await rejectUser(ctx, id);
        return 'The account was rejected and deleted.';
      }),
  }),
];

/** Another administrator may have decided meanwhile. */
const answer = async (visit: Visit, decide: () => Promise<string>): Promise<PageResponse> => {
  try {
    return visit.redirect(APPROVALS_PATH, { notice: await decide() });
  } catch (error) {
    if (!(error instanceof DomainError) || !['not_found', 'forbidden'].includes(error.code)) throw error;
    return visit.redirect(APPROVALS_PATH, { notice: 'This account no longer waits for approval.' });
  }
};

const show = async (ctx: Context, visit: Visit, number: number): Promise<PageResponse> => {
  const waiting = listUsers(ctx, { pending_approval: true, sort: 'asc' });
  const { items, ...rest } = await readPage(waiting, offsetPage(number, DEFAULT_PER_PAGE));
  const headings = ['User name', 'Name', 'E-mail address', 'Registered', 'Decide'];
  const body = html`<p>These people have registered and cannot sign in until you approve them. They get a mail either way. Rejecting an account deletes it.</p>
!${
    items.length === 0
      ? html`<p class="empty">Nobody is waiting.</p>`
      : table(
          'Accounts that wait for approval',
          headings,
          items.map((user) => cells(visit, user)),
        )
  }
!${pager(APPROVALS_PATH, number, rest)}`;
  return visit.show(layout({ title: 'Accounts to approve', visit, body, wide: true }));
};

const cells = (visit: Visit, { id, username, name, email, confirmed_at, created_at }: UserRow): readonly string[] => {
  const at = `${APPROVALS_PATH}/${id}`;
  return [
    html`@${username}`,
    html`${name}`,
    html`${email}!${confirmed_at === null ? ' <em>unconfirmed</em>' : ''}`,
    time(isoTime(created_at)),
    html`<div class="actions">!${form(visit, `${at}/approve`, button('Approve', { kind: 'plain', label: `Approve ${username}` }))}!${form(visit, `${at}/reject`, button('Reject', { kind: 'danger', label: `Reject ${username}` }))}</div>`,
  ];
};
