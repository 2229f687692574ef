import type pg from 'pg';
import { packEvent } from '../../../src/domains/error-tracking/digest/payload.ts';
import type { NormalizedEvent } from '../../../src/domains/error-tracking/event.ts';
import { seed } from '../data.ts';

export interface FilledErrors {
  readonly token: string;
  readonly path: string;
  /** The error that has one in ten of the events. */
  readonly errorId: number;
}

/** One error for so many events. */
const EVENTS_PER_ERROR = 50;
const WEEKS = 12;

/**
 * Fills an empty database with a project that has this many error events of the last twelve weeks, in weekly partitions,
 * with their errors and counts. One error has a tenth of the events.
 */
export const fillErrors = async (pool: pg.Pool, events: number): Promise<FilledErrors> => {
  const { token } = await seed(pool, { groups: 1, projectsPerGroup: 1 });
  const { rows } = await pool.query<{ id: number; path: string }>('select id, full_path as path from projects');
  const [project] = rows;
  if (!project) throw new Error('no project was made');
  for (let week = 0; week <= WEEKS; week++)
    await pool.query(`select make_time_partition('error_events', 'week', now() - $1 * interval '1 week')`, [week]);
  const errors = Math.ceil(events / EVENTS_PER_ERROR);
  const newest = `received_at desc, event_id desc`;
  await pool.query(
    `insert into error_events (project_id, event_id, error_id, received_at, occurred_at, level, environment, release,
       tags, payload)
     select $1, md5(i::text)::uuid, case when i % 10 = 0 then 1 else 1 + i % $2::int end, at, at, 'error',
       case when i % 3 = 0 then 'staging' else 'production' end, '1.' || i % 20,
       jsonb_build_object('browser', 'Firefox ' || i % 40, 'os', 'Linux'), $3
     from (select i, now() - (($4::bigint - i) * ($5 * interval '7 days' / $4::bigint)) as at
       from generate_series(1, $4::bigint) i) made`,
    [project.id, errors, packEvent(SAMPLE), events, WEEKS],
  );
  await pool.query(
    `insert into errors (id, project_id, status, level, platform, type, title, culprit, first_seen, last_seen,
       event_count, user_count, newest_event_id, newest_received_at)
     select error_id, $1, case when error_id % 4 = 3 then 'resolved' else 'unresolved' end, 'error', 'python',
       'KeyError', 'KeyError: no field ' || md5(error_id::text), '/shop/' || error_id % 100, min(received_at),
       max(received_at), count(*), count(*) % 97, (array_agg(event_id order by ${newest}))[1], max(received_at)
     from error_events group by error_id`,
    [project.id],
  );
  await pool.query(`insert into error_hours (error_id, hour, event_count)
    select error_id, date_trunc('hour', received_at), count(*) from error_events group by 1, 2`);
  await pool.query(`insert into error_facets (error_id, kind, value, event_count, first_seen, last_seen)
    select error_id, kind, value, count(*), min(received_at), max(received_at)
    from error_events cross join lateral (values ('environment', environment), ('release', release)) as v (kind, value)
    group by 1, 2, 3`);
  await pool.query('vacuum analyze');
  return { token, path: project.path, errorId: 1 };
};

const frame = (name: string, line: number) => ({
  function: name,
  raw_function: null,
  module: 'shop.cart',
  package: null,
  filename: 'shop/cart.py',
  abs_path: '/srv/shop/cart.py',
  lineno: line,
  colno: null,
  pre_context: ['def load(cart):', '    items = []'],
  context_line: `    return cart['field ${line}']`,
  post_context: ['', ''],
  in_app: true,
  vars: { cart: '{}' },
  platform: null,
});

const SAMPLE: NormalizedEvent = {
  project_id: 0,
  event_id: '',
  received_at: '',
  timestamp: '2026-01-01T00:00:00.000Z',
  level: 'error',
  platform: 'python',
  logger: null,
  transaction: '/shop',
  server_name: 'web1',
  release: '1.0',
  dist: null,
  environment: 'production',
  message: null,
  exceptions: [
    {
      type: 'KeyError',
      value: 'no field',
      module: null,
      thread_id: null,
      mechanism: null,
      frames: ['main', 'handle', 'load', 'field'].map((name, line) => frame(name, line)),
    },
  ],
  stack: [],
  breadcrumbs: [],
  request: null,
  user: null,
  tags: { browser: 'Firefox', os: 'Linux' },
  extra: {},
  contexts: { runtime: { name: 'CPython', version: '3.13' } },
  modules: {},
  fingerprint: [],
  sdk: { name: 'sentry.python', version: '2.0' },
  cut: [],
};
