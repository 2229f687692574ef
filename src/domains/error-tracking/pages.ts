import { html, layout, table, time } from '#pages/html.ts';
import { type Page, page } from '#pages/page.ts';
import { pager } from '#pages/pager.ts';
import { DEFAULT_PER_PAGE, offsetPage } from '#platform/paging.ts';
import { integer, text } from '#rest/params.ts';
import type { StoredEvent } from './digest/payload.ts';
import { type ErrorRow, getErrorProject, getErrorWithProject, listErrorsBelow } from './errors/queries.ts';
import { type EventRowOfError, eventKey, newestEvents, payloadsByEvents } from './errors/stored-events.ts';
import type { NormalizedException, NormalizedFrame } from './event.ts';

// The pages that mails, hooks and GraphQL link to. They only show errors: everything else is done over GraphQL.

const BELOW_PROJECT = '-/error_tracking';

export const pages: readonly Page[] = [
  page({
    method: 'GET',
    path: `/*project/${BELOW_PROJECT}`,
    auth: 'required',
    input: { project: text(), page: integer({ min: 1, max: 10_000 }).default(1) },
    run: async (ctx, { project: path, page: number }, visit) => {
      const project = await getErrorProject(ctx, { path });
      const address = `/${project.full_path}/${BELOW_PROJECT}`;
      const { limit, offset } = offsetPage(number, DEFAULT_PER_PAGE);
      const window = { limit: limit + 1, offset, backwards: false };
      const found = (await listErrorsBelow(ctx, {}).rows([project.id], window)).get(project.id) ?? [];
      const rows = found.slice(0, limit).map((error) => listed(address, error));
      const body = html`<p>The errors of ${project.full_path}, those seen last first.</p>
!${rows.length === 0 ? html`<p class="empty">There are none.</p>` : table('Errors', ['Error', 'State', 'Events', 'Last seen'], rows)}
!${pager(address, number, { hasNext: found.length > limit })}`;
      return visit.show(layout({ title: 'Errors', visit, body, wide: true }));
    },
  }),
  page({
    method: 'GET',
    path: `/*project/${BELOW_PROJECT}/:id/details`,
    auth: 'required',
    input: { project: text(), id: integer() },
    run: async (ctx, { project: path, id }, visit) => {
      const { error, project } = await getErrorWithProject(ctx, id);
      const address = `/${project.full_path}/${BELOW_PROJECT}`;
      // The project may have moved since the link was sent.
      if (path !== project.full_path) return visit.redirect(`${address}/${id}/details`);
      const event = (await newestEvents(ctx, [id])).get(id);
      const payload = event && (await payloadsByEvents(ctx, [eventKey(event)])).get(eventKey(event));
      const body = html`<p><a href="${address}">All errors of ${project.full_path}</a></p>
!${facts(error)}
!${event ? newest(event, payload) : html`<p class="empty">Its events are no longer kept.</p>`}`;
      return visit.show(layout({ title: error.title, visit, body, wide: true }));
    },
  }),
];

const listed = (address: string, { id, title, culprit, status, event_count, last_seen }: ErrorRow): string[] => [
  html`<a href="${address}/${id}/details">${title}</a>!${culprit === null ? '' : html`<br><em>${culprit}</em>`}`,
  inWords(status),
  `${event_count}`,
  time(last_seen),
];

const facts = (error: ErrorRow): string => {
  const rows: readonly (readonly [string, string | null])[] = [
    ['State', inWords(error.status)],
    ['Level', html`${error.level}`],
    ['In', error.culprit === null ? null : html`<code>${error.culprit}</code>`],
    ['Events', `${error.event_count}`],
    ['Affected users', `${error.user_sampling === 0 ? '' : 'about '}${error.user_count}`],
    ['First seen', seen(error.first_seen, error.first_release)],
    ['Last seen', seen(error.last_seen, error.last_release)],
  ];
  return html`<dl>!${rows.map(([name, value]) => (value === null ? '' : html`<dt>${name}</dt><dd>!${value}</dd>`))}</dl>`;
};

const inWords = (status: string): string => html`${status.replaceAll('_', ' ')}`;

const seen = (at: string, release: string | null): string =>
  time(at) + (release === null ? '' : html`, release ${release}`);

const newest = (event: EventRowOfError, payload: StoredEvent | undefined): string => {
  const { environment, release, occurred_at, tags } = event;
  const where = [environment, release === null ? null : `release ${release}`].filter((each) => each !== null);
  return html`<h2>Newest event</h2>
<p>!${time(occurred_at)}!${where.map((each) => html`, ${each}`).join('')}</p>
!${payload ? reported(payload) : ''}
!${
    Object.keys(tags).length === 0
      ? ''
      : table(
          'Tags',
          ['Tag', 'Value'],
          Object.entries(tags).map(([key, value]) => [html`${key}`, html`${value}`]),
        )
  }`;
};

const reported = ({ exceptions, message, stack, request }: StoredEvent): string => html`
!${message === null ? '' : html`<p>${message.formatted}</p>`}
!${request?.url == null ? '' : html`<p><code>${request.method ?? 'GET'} ${request.url}</code></p>`}
!${exceptions.toReversed().map(thrown).join('\n')}
!${stack.length === 0 ? '' : trace('Stack', stack)}`;

/** The exception that was thrown last comes first, and each further one is a cause of the one before. */
const thrown = ({ type, value, frames }: NormalizedException, at: number): string => {
  const name = [type, value].filter((each) => each !== null && each !== '').join(': ') || 'An exception';
  return html`<h3>${at === 0 ? '' : 'Caused by '}${name}</h3>!${frames.length === 0 ? '' : trace(name, frames)}`;
};

/** The place of the crash comes first. */
const trace = (label: string, frames: readonly NormalizedFrame[]): string =>
  html`<pre class="trace" tabindex="0" role="group" aria-label="${label}">${frames.toReversed().map(frameText).join('\n')}</pre>`;

const frameText = (frame: NormalizedFrame): string => {
  const file = frame.filename ?? frame.abs_path ?? frame.module ?? '?';
  const place = [file, frame.lineno, frame.colno].filter((each) => each !== null).join(':');
  const source = frame.in_app === false || frame.context_line === null ? '' : `\n    ${frame.context_line.trim()}`;
  return `${frame.function ?? '?'} (${place})${source}`;
};
