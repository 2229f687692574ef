import { execFile } from 'node:child_process';
import { readFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { unpackEvent } from '#domains/error-tracking/digest/payload.ts';
import { makeSender, type Sender } from '../error-ingest/sending.ts';
import { describeInBrowser, useBrowser } from '../pages/browser.ts';
import { useApp } from '../support/app.ts';
import { until } from '../support/until.ts';

// Unchanged Sentry SDKs report to the DSN of a client key.

const app = useApp();
const run = promisify(execFile);
const here = import.meta.dirname;
const PYTHON = '/usr/bin/python3';

const hasPythonSdk: boolean = await run(PYTHON, ['-c', 'import sentry_sdk']).then(
  () => true,
  () => false,
);

const environment = (sender: Sender, more: Record<string, string> = {}) => ({
  env: { PATH: process.env.PATH, HOME: here, SENTRY_DSN: sender.key.sentry_dsn, PYTHONDONTWRITEBYTECODE: '1', ...more },
});

/** The event with this id, as it is stored. */
const storedEvent = (projectId: number, id: string) =>
  until(`the event ${id}`, async () => {
    const { rows } = await app().hub.services.pool.query<{ payload: Buffer }>(
      'select payload from error_events where project_id = $1 and event_id = $2::uuid',
      [projectId, id],
    );
    return rows[0] && unpackEvent(rows[0].payload);
  });

const sessionsOf = async (projectId: number) => {
  await app().settle();
  const { rows } = await app().hub.services.pool.query(
    `select r.version, h.environment, sum(h.total)::int as total, sum(h.crashed)::int as crashed
     from error_session_hours h join error_releases r on r.id = h.release_id where r.project_id = $1 group by 1, 2`,
    [projectId],
  );
  return rows;
};

const failuresOf = async (projectId: number) => {
  const { rows } = await app().hub.services.pool.query('select reason from ingest_failures where project_id = $1', [
    projectId,
  ]);
  return rows;
};

const idsOf = (output: string): Record<string, string> => JSON.parse(output.trim().split('\n').at(-1) ?? '').ids;

describe('@sentry/node', () => {
  it('reports chained errors, messages, sessions and attachments', async () => {
    const sender = await makeSender(app());
    const { stdout } = await run(process.execPath, [join(here, 'sentry-node.mjs')], environment(sender));
    const ids = idsOf(stdout);
    const chained = await storedEvent(sender.projectId, ids.chained ?? '');
    expect(chained).toMatchObject({
      ...{ level: 'error', platform: 'node', release: 'shop@1.2.3', environment: 'live' },
      ...{ tags: { area: 'checkout' }, user: { id: '42', email: 'ada@example.com' } },
      sdk: { name: 'sentry.javascript.node' },
    });
    // The cause first.
    expect(chained.exceptions.map(({ type, value }) => [type, value])).toEqual([
      ['TypeError', 'cart is undefined (19)'],
      ['Error', 'could not check out'],
    ]);
    expect(chained.exceptions[0]?.frames.at(-1)).toMatchObject({
      function: 'readCart',
      context_line: expect.stringContaining('cart is undefined'),
      in_app: true,
    });
    expect(await storedEvent(sender.projectId, ids.message ?? '')).toMatchObject({
      ...{ level: 'warning', message: { formatted: 'the stock is low' } },
    });
    const attached = await storedEvent(sender.projectId, ids.attached ?? '');
    expect(attached.breadcrumbs.at(-1)).toMatchObject({ category: 'cart', message: 'opened' });
    expect(attached.extra).toEqual({ authToken: '[Filtered]' });
    expect((await storedEvent(sender.projectId, ids.long ?? '')).message?.formatted.length).toBeGreaterThan(200);
    expect(await sessionsOf(sender.projectId)).toEqual([
      { version: 'shop@1.2.3', environment: 'live', total: expect.any(Number), crashed: 0 },
    ]);
    expect(await failuresOf(sender.projectId)).toEqual([]);
  });
});

describe('sentry-cli', () => {
  it('sends an event', async () => {
    const sender = await makeSender(app());
    const cli = fileURLToPath(import.meta.resolve('@sentry/cli/bin/sentry-cli'));
    const args = [
      'send-event',
      '--message',
      'deployed by %s',
      '--message-arg',
      'ada',
      '--release',
      'shop@2',
      '--tag',
      'a:b',
    ];
    const { stdout } = await run(process.execPath, [cli, ...args], environment(sender));
    const id = /[0-9a-f]{8}-?[0-9a-f-]{23,27}/.exec(stdout)?.[0] ?? '';
    expect(await storedEvent(sender.projectId, id)).toMatchObject({
      ...{ platform: 'native', release: 'shop@2', tags: { a: 'b' } },
      message: { template: 'deployed by %s', formatted: 'deployed by ada' },
    });
  });
});

describe.skipIf(!hasPythonSdk)('sentry_sdk of Python', () => {
  // Without traces it uses the endpoint for single events.
  it.each(['0', '1'])('reports chained errors, messages and sessions, with traces %s', async (traces) => {
    const sender = await makeSender(app());
    const { stdout } = await run(PYTHON, [join(here, 'sentry_python.py')], environment(sender, { TRACES: traces }));
    const ids = idsOf(stdout);
    const chained = await storedEvent(sender.projectId, ids.chained ?? '');
    expect(chained).toMatchObject({ platform: 'python', release: 'shop@1.2.3', environment: 'live' });
    expect(chained.exceptions.map(({ type }) => type)).toEqual(['KeyError', 'RuntimeError']);
    const frame = chained.exceptions[0]?.frames.at(-1);
    expect(frame).toMatchObject({ function: 'read_cart', vars: { password: '[Filtered]' } });
    expect(await storedEvent(sender.projectId, ids.message ?? '')).toMatchObject({
      ...{ level: 'warning', message: { formatted: 'the stock is low' } },
    });
    await storedEvent(sender.projectId, ids.attached ?? '');
    expect(await sessionsOf(sender.projectId)).toMatchObject([{ version: 'shop@1.2.3', total: 1 }]);
    expect(await failuresOf(sender.projectId)).toEqual([]);
  });
});

describeInBrowser('@sentry/browser', () => {
  const browser = useBrowser();
  const server = createServer();
  let origin = '';
  beforeAll(async () => {
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    const address: AddressInfo | string | null = server.address();
    if (address === null || typeof address === 'string') throw new Error('the server has no address');
    origin = `http://127.0.0.1:${address.port}`;
  });
  afterAll(() => void server.close());

  const packages = join(here, '../../node_modules');
  const below = (path: string) => `/modules/${path}`;
  const imports = {
    '@sentry/browser': below('@sentry/browser/build/npm/esm/prod/index.js'),
    '@sentry/browser-utils': below('@sentry/browser-utils/build/esm/index.js'),
    '@sentry/core': below('@sentry/core/build/esm/index.js'),
    '@sentry/core/browser': below('@sentry/core/build/esm/browser.js'),
    '@sentry/feedback': below('@sentry/feedback/build/npm/esm/index.js'),
    '@sentry/replay': below('@sentry/replay/build/npm/esm/index.js'),
    '@sentry/replay-canvas': below('@sentry/replay-canvas/build/npm/esm/index.js'),
    '@sentry/conventions/attributes': below('@sentry/conventions/dist/attributes.mjs'),
    '@sentry/conventions/metrics': below('@sentry/conventions/dist/metrics.mjs'),
    '@sentry/conventions/op': below('@sentry/conventions/dist/op.mjs'),
    'web-vitals': below('web-vitals/dist/web-vitals.js'),
  };
  const page = (dsn: string) => `<!doctype html><title>Shop</title>
    <script type="importmap">${JSON.stringify({ imports })}</script>
    <script type="module">
      import * as Sentry from '@sentry/browser';
      Sentry.init({ dsn: ${JSON.stringify(dsn)}, release: 'shop@3', environment: 'live' });
      const ids = { message: Sentry.captureMessage('the page is slow', 'info') };
      try { document.querySelector('#none').click(); } catch (error) { ids.caught = Sentry.captureException(error); }
      setTimeout(() => { throw new RangeError('nobody catches this'); });
      window.reported = Sentry.flush(20000).then(() => ids);
    </script>`;

  it('reports errors from another origin, and obeys the rate limits of the answers', async () => {
    const sender = await makeSender(app());
    server.removeAllListeners('request').on('request', async ({ url = '' }, response) => {
      if (!url.startsWith('/modules/')) {
        response.setHeader('content-type', 'text/html').end(page(sender.key.sentry_dsn));
        return;
      }
      response.setHeader('content-type', 'text/javascript');
      response.end(await readFile(join(packages, url.slice('/modules/'.length))).catch(() => ''));
    });
    const { page: tab, requests } = await browser.open({ baseURL: app().url, also: [origin] });
    await tab.goto(`${origin}/`);
    const ids = await tab.evaluate('window.reported');
    const { message, caught } = ids as Record<string, string>;
    expect(await storedEvent(sender.projectId, message ?? '')).toMatchObject({
      ...{ level: 'info', platform: 'javascript', release: 'shop@3', message: { formatted: 'the page is slow' } },
      request: { url: `${origin}/` },
    });
    expect((await storedEvent(sender.projectId, caught ?? '')).exceptions).toMatchObject([{ type: 'TypeError' }]);
    await until('the error that nobody catches', async () => {
      const { rows } = await app().hub.services.pool.query(
        `select id from errors where project_id = $1 and type = 'RangeError'`,
        [sender.projectId],
      );
      return rows.length === 1;
    });
    await until('the session of the page', async () =>
      (await sessionsOf(sender.projectId)).some(({ version, total }) => version === 'shop@3' && total === 1),
    );

    await app().as(app().root).put('/application/settings', { error_tracking_key_limit: 1 });
    try {
      const sent = () => requests.filter((url) => url.includes('/envelope/')).length;
      const report = `import('@sentry/browser').then((Sentry) => { Sentry.captureMessage('again'); return Sentry.flush(20000); })`;
      // A minute may end in between.
      await until('the SDK stops sending', async () => {
        const before = sent();
        for (let i = 0; i < 3; i++) await tab.evaluate(report);
        return sent() === before;
      });
    } finally {
      await app().as(app().root).put('/application/settings', { error_tracking_key_limit: 0 });
    }
  });
});
