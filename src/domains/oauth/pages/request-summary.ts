import { type UserSummary, userSummariesByIds } from '#domains/users/queries.ts';
import { html } from '#pages/html.ts';
import type { Visit } from '#pages/visit.ts';
import type { Context } from '#platform/context.ts';
import type { ApplicationRow } from '../applications.ts';
import { scopeList } from './scopes.ts';

interface RequestSummaryOptions {
  readonly visit: Visit;
  readonly application: ApplicationRow;
  readonly scopes: readonly string[];
  /** More lines about the request: a term, and its description as HTML. */
  readonly details: readonly (readonly [string, string])[];
}

/**
 * Returns the facts that a user needs before they authorise an application: who asks, as whom they are signed in, and
 * the scopes.
 */
export const requestSummary = async (
  ctx: Context,
  { visit, application, scopes, details }: RequestSummaryOptions,
): Promise<string> => {
  const { owner_id } = application;
  const owner = owner_id === null ? null : (await userSummariesByIds(ctx, [owner_id])).get(owner_id);
  const lines = [['Registered by', registrant(owner)], ['Kind', kindOf(application)], ...details] as const;
  return html`<p class="lead"><strong>${application.name}</strong> wants to act for you. You are signed in as <strong>@${visit.username ?? ''}</strong>.</p>
<dl>
!${lines.map(([term, said]) => html`<div><dt>${term}</dt><dd>!${said}</dd></div>`).join('\n')}
</dl>
<h2>It would be able to</h2>
!${scopeList(scopes)}`;
};

const registrant = (owner: UserSummary | null | undefined): string =>
  owner ? html`${owner.name} (@${owner.username})` : 'The administrators of this hub';

const kindOf = ({ confidential }: ApplicationRow): string =>
  confidential
    ? 'Confidential: it proves its identity with a secret'
    : 'Public: it runs on a device or in a browser, and cannot prove its identity';
