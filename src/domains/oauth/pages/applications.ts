import { madeThrough } from '#domains/tokens/pages.ts';
import { userSummariesByIds } from '#domains/users/queries.ts';
import { button, errorSummary, type FormErrors, form, html, layout, table, time } from '#pages/html.ts';
import { type Page, type PageResponse, page } from '#pages/page.ts';
import { pager } from '#pages/pager.ts';
import { secret } from '#pages/secret.ts';
import type { Visit } from '#pages/visit.ts';
import type { Context } from '#platform/context.ts';
import { DomainError } from '#platform/errors.ts';
import { DEFAULT_PER_PAGE, offsetPage, readPage } from '#platform/paging.ts';
import { isoTime } from '#platform/time.ts';
import { integer } from '#rest/params.ts';
import {
  type ApplicationRow,
  createApplication,
  getApplication,
  listApplications,
  removeApplication,
  renewSecret,
  updateApplication,
} from '../applications.ts';
import { applicationForm, applicationInput, fromDraft, LABELS, newDraft } from './application-form.ts';
import { authorizedSection } from './authorized.ts';
import { scopeList } from './scopes.ts';

interface Section {
  readonly path: string;
  readonly title: string;
  /** Shows every application and registers instance-wide ones. For administrators. */
  readonly forHub: boolean;
}

/** Returns the application pages below a path: the caller's own applications, or all of them for administrators. */
const pagesBelow = (section: Section): readonly Page[] => {
  const { path, forHub } = section;
  const auth = forHub ? 'administrator' : 'required';
  return [
    page({
      method: 'GET',
      path,
      auth,
      input: { page: integer({ min: 1, max: 10_000 }).default(1) },
      run: (ctx, { page: number }, visit) => showList(ctx, visit, section, number),
    }),
    page({
      method: 'GET',
      path: `${path}/new`,
      auth,
      run: (_ctx, _input, visit) => showNew(visit, section, newDraft, {}),
    }),
    page({
      method: 'POST',
      path,
      auth,
      input: applicationInput,
      run: async (ctx, draft, visit) => {
        try {
          const created = await createApplication(ctx, fromDraft(draft), { forHub });
          return showOne(visit, section, created, created.secret);
        } catch (error) {
          return showNew(visit, section, draft, mendable(error));
        }
      },
    }),
    page({
      method: 'GET',
      path: `${path}/:id`,
      auth,
      input: { id: integer() },
      run: async (ctx, { id }, visit) => showOne(visit, section, await getApplication(ctx, id)),
    }),
    page({
      method: 'GET',
      path: `${path}/:id/edit`,
      auth,
      input: { id: integer() },
      run: async (ctx, { id }, visit) => {
        const application = await getApplication(ctx, id);
        const draft = { ...application, redirect_uri: application.redirect_uris.join('\n') };
        return showEdit(visit, section, application, draft, {});
      },
    }),
    page({
      method: 'POST',
      path: `${path}/:id`,
      auth,
      input: { ...applicationInput, id: integer() },
      run: async (ctx, { id, ...draft }, visit) => {
        const application = await getApplication(ctx, id);
        try {
          await updateApplication(ctx, id, fromDraft(draft));
          return visit.redirect(`${path}/${id}`, { notice: 'The application was changed.' });
        } catch (error) {
          return showEdit(visit, section, application, draft, mendable(error));
        }
      },
    }),
    page({
      method: 'POST',
      path: `${path}/:id/renew_secret`,
      auth,
      input: { id: integer() },
      run: async (ctx, { id }, visit) => {
        const renewed = await renewSecret(ctx, id);
        return showOne(visit, section, renewed, renewed.secret);
      },
    }),
    page({
      method: 'POST',
      path: `${path}/:id/delete`,
      auth,
      input: { id: integer() },
      run: async (ctx, { id }, visit) => {
        const { name } = await removeApplication(ctx, id);
        return visit.redirect(path, { notice: `${name} was deleted.` });
      },
    }),
  ];
};

export const applicationPages: readonly Page[] = [
  ...pagesBelow({ path: '/-/user_settings/applications', title: 'Applications', forHub: false }),
  ...pagesBelow({ path: '/admin/applications', title: 'Applications of the hub', forHub: true }),
];

/** Returns the problems with the form. Throws other errors on. */
const mendable = (error: unknown): FormErrors => {
  if (error instanceof DomainError && error.code === 'invalid') return error.details.fields ?? {};
  throw error;
};

const showList = async (ctx: Context, visit: Visit, section: Section, number: number): Promise<PageResponse> => {
  const { path, title, forHub } = section;
  const list = listApplications(ctx, { all: forHub });
  const { items, ...rest } = await readPage(list, offsetPage(number, DEFAULT_PER_PAGE));
  const body = html`<section aria-labelledby="registered">
<h2 id="registered">${forHub ? 'All applications' : 'Your applications'}</h2>
<p>${forHub ? 'This includes the applications that users have registered.' : 'Your programs that sign users in with this hub, or act for them.'}</p>
!${items.length === 0 ? html`<p class="empty">There are none.</p>` : await applicationTable(ctx, section, items)}
!${pager(path, number, rest)}
<p><a class="button" href="${path}/new">New application</a></p>
</section>
!${forHub ? '' : await authorizedSection(ctx, visit)}`;
  return visit.show(layout({ title, visit, body, wide: true }));
};

const applicationTable = async (
  ctx: Context,
  { path, forHub }: Section,
  applications: readonly ApplicationRow[],
): Promise<string> => {
  const owners = await userSummariesByIds(ctx, forHub ? applications.flatMap(({ owner_id }) => owner_id ?? []) : []);
  const ownerCell = ({ owner_id }: ApplicationRow): string => {
    const owner = owner_id === null ? undefined : owners.get(owner_id);
    return owner ? html`@${owner.username}` : 'the hub';
  };
  return table(
    forHub ? 'All applications' : 'Your applications',
    ['Name', 'Application ID', ...(forHub ? ['Registered for'] : []), 'Scopes', 'Created'],
    applications.map((application) => [
      html`<a href="${path}/${application.id}">${application.name}</a>`,
      html`<code>${application.uid}</code>`,
      ...(forHub ? [ownerCell(application)] : []),
      html`${application.scopes.join(', ')}`,
      time(isoTime(application.created_at)),
    ]),
  );
};

const showOne = (visit: Visit, { path }: Section, application: ApplicationRow, shownSecret?: string): PageResponse => {
  const { id, uid, name, redirect_uris, scopes, confidential, trusted } = application;
  const uris = redirect_uris.map((uri) => html`<dd><code>${uri}</code></dd>`).join('');
  const body = html`!${shownSecret === undefined ? '' : secret({ id: 'secret', label: 'Secret', value: shownSecret })}
<dl>
<div><dt>Application ID</dt><dd><code>${uid}</code></dd></div>
<div><dt>Redirect URIs</dt>!${uris === '' ? '<dd>None: for devices only</dd>' : uris}</div>
<div><dt>Kind</dt><dd>${confidential ? 'Confidential: it keeps a secret' : 'Public: it uses PKCE'}${trusted ? ', trusted: users are not asked for consent' : ''}</dd></div>
<div><dt>Created</dt><dd>!${time(isoTime(application.created_at))}!${application.origin ? html`<p class="hint">${madeThrough(application.origin)}</p>` : ''}</dd></div>
</dl>
<h2>It may ask to</h2>
!${scopeList(scopes)}
<div class="actions">
<a class="button" href="${path}/${id}/edit">Edit</a>
!${form(visit, `${path}/${id}/renew_secret`, button('Renew secret', { kind: 'plain' }))}
</div>
<details>
<summary>Delete this application</summary>
<p>Users who have authorised it are signed out of it at once. This cannot be undone.</p>
!${form(visit, `${path}/${id}/delete`, button('Delete', { kind: 'danger', label: `Delete ${name}` }))}
</details>
<p><a href="${path}">All applications</a></p>`;
  return visit.show(layout({ title: name, visit, body, wide: true }));
};

type Draft = Parameters<typeof applicationForm>[1]['draft'];

const showNew = (visit: Visit, { path, forHub }: Section, draft: Draft, errors: FormErrors): PageResponse => {
  const body = html`!${errorSummary(errors, LABELS)}
!${applicationForm(visit, { action: path, submit: 'Create application', draft, errors, ofHub: forHub })}
<p><a href="${path}">All applications</a></p>`;
  const title = forHub ? 'New application of the hub' : 'New application';
  return visit.show(layout({ title, visit, body }), { status: statusOf(errors) });
};

const showEdit = (
  visit: Visit,
  { path }: Section,
  { id, name, owner_id }: ApplicationRow,
  draft: Draft,
  errors: FormErrors,
): PageResponse => {
  const action = `${path}/${id}`;
  const body = html`!${errorSummary(errors, LABELS)}
!${applicationForm(visit, { action, submit: 'Save', draft, errors, ofHub: owner_id === null })}
<p><a href="${action}">Back</a></p>`;
  return visit.show(layout({ title: `Edit ${name}`, visit, body }), { status: statusOf(errors) });
};

const statusOf = (errors: FormErrors): number => (Object.keys(errors).length > 0 ? 422 : 200);
