import { html, layout, notice, table, time } from '#pages/html.ts';
import { type Page, page } from '#pages/page.ts';
import { VERSION } from '#platform/process/version.ts';
import { isoTime } from '#platform/time.ts';
import { integer } from '#rest/params.ts';
import { type HubActivity, type LatestEvent, readHubActivity } from './queries.ts';

const PATH = '/admin';
const EVERY_SECONDS = 5;
/** How often a page reloads itself. Each time keeps the session alive, which must end if nobody looks any more. */
const RELOADS = 360;

/** The page on which administrators see what the hub does at this moment. */
export const pages: readonly Page[] = [
  page({
    method: 'GET',
    path: PATH,
    auth: 'administrator',
    /** How often the page still reloads itself. */
    input: { live: integer({ min: 0, max: RELOADS }).default(0) },
    run: async (ctx, { live }, visit) => {
      const activity = await readHubActivity(ctx);
      const body = html`!${introduction(activity, ctx.clock.now().toISOString(), live > 0)}
<h2>Processes</h2>
!${processTable(activity)}
<h2>Jobs</h2>
!${jobTable(activity)}
<h2>Webhooks</h2>
!${deliveryText(activity)}
<h2>Followers of events</h2>
!${followerTable(activity)}
<h2>Latest events</h2>
!${eventTable(activity)}`;
      const shown = layout({ title: 'What the hub does', visit, body, wide: true });
      if (live === 0) return visit.show(shown);
      return visit.show(shown, { headers: { refresh: `${EVERY_SECONDS}; url=${PATH}?live=${live - 1}` } });
    },
  }),
];

const introduction = ({ databaseBytes, waitingReports }: HubActivity, now: string, live: boolean): string => {
  const again = live
    ? html`updated every ${EVERY_SECONDS} seconds. <a href="${PATH}">Stop</a>`
    : html`as of ${now.slice(11, 19)} UTC. <a href="${PATH}?live=${RELOADS}">Keep it up to date</a> for half an hour`;
  return html`<p>Millrace ${VERSION}, !${again}</p>
<p>The database takes ${megabytes(databaseBytes)}. ${waitingReports === 0 ? 'No error report waits' : `About ${counted(waitingReports, 'error report waits', 'error reports wait')}`} to be read.</p>`;
};

const processTable = ({ processes }: HubActivity): string =>
  table(
    'The processes of the hub',
    ['Process', 'Work', 'Host', 'Started', 'Last heartbeat'],
    processes.map(({ id, role, hostname, started_at, seen_seconds, alive }) => [
      html`<code>${id.slice(0, 8)}</code>`,
      WORK[role] ?? html`${role}`,
      html`${hostname}`,
      time(isoTime(started_at)),
      alive ? `${seen_seconds} s ago` : html`<strong>dead</strong>, ${seen_seconds} s ago`,
    ]),
  );

const WORK: Readonly<Record<string, string>> = {
  all: 'requests and jobs',
  web: 'requests',
  worker: 'jobs',
};

const jobTable = ({ jobs }: HubActivity): string =>
  jobs.length === 0
    ? html`<p class="empty">No job runs or waits.</p>`
    : table(
        'Jobs by name',
        ['Job', 'Running', 'Waiting', 'Later', 'Given up', 'Last error'],
        jobs.map(({ name, running, waiting, later, given_up, last_error }) => [
          html`<code>${name}</code>`,
          `${running}`,
          `${waiting}`,
          `${later}`,
          given_up === 0 ? '0' : html`<strong>${given_up}</strong>`,
          errorText(last_error),
        ]),
      );

const deliveryText = ({ deliveries }: HubActivity): string => {
  const { due, later, oldest_seconds, disabled_hooks, paused_hooks } = deliveries;
  const waiting = [
    due > 0 && oldest_seconds !== null
      ? `${counted(due, 'delivery is', 'deliveries are')} due, the oldest for ${oldest_seconds} s.`
      : 'No delivery is due.',
    later > 0 ? `${counted(later, 'delivery waits', 'deliveries wait')} for another try.` : '',
  ];
  const failing = [
    disabled_hooks > 0 ? `${counted(disabled_hooks, 'hook is', 'hooks are')} disabled after failures.` : '',
    paused_hooks > 0 ? `${counted(paused_hooks, 'hook is', 'hooks are')} paused after failures.` : '',
  ];
  return html`<p>${waiting.join(' ')}</p>
!${disabled_hooks + paused_hooks === 0 ? '' : notice('warning', failing.join(' '))}`;
};

const followerTable = ({ followers }: HubActivity): string => {
  const troubled = followers.filter(({ late, set_aside }) => late || set_aside > 0);
  if (troubled.length === 0) return html`<p>All ${followers.length} have handled their events.</p>`;
  return html`<p>The other ${followers.length - troubled.length} have handled their events.</p>
!${table(
    'Followers that are late, or set events aside',
    ['Follower', 'Events behind', 'Behind for', 'Set aside', 'Last error'],
    troubled.map(({ name, behind, behind_seconds, late, set_aside, last_error }) => [
      html`<code>${name}</code>`,
      late ? `${behind}` : '',
      late ? `${behind_seconds} s` : '',
      set_aside === 0 ? '0' : html`<strong>${set_aside}</strong>`,
      errorText(last_error),
    ]),
  )}`;
};

const eventTable = ({ events }: HubActivity): string =>
  events.length === 0
    ? html`<p class="empty">Nothing has happened yet.</p>`
    : table('The latest events, newest first', ['Event', 'Time', 'By', 'Where', 'About'], events.map(eventCells));

const eventCells = ({ kind, created_at, actor, path, subject_type, subject_id }: LatestEvent): readonly string[] => [
  html`<code>${kind}</code>`,
  time(isoTime(created_at)),
  actor === null ? 'the hub' : html`@${actor}`,
  path === null ? '' : html`${path}`,
  html`${subject_type} ${subject_id}`,
];

const MAX_ERROR = 120;

const errorText = (error: string | null): string => {
  if (error === null) return '';
  const [line = ''] = error.split('\n');
  return html`${line.length > MAX_ERROR ? `${line.slice(0, MAX_ERROR)}…` : line}`;
};

const counted = (n: number, one: string, many: string): string => `${n} ${n === 1 ? one : many}`;

const megabytes = (bytes: number): string => `${(bytes / 1024 ** 2).toFixed(0)} MiB`;
