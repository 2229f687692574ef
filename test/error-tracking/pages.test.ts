import { describe, expect, it } from 'vitest';
import { type NormalizedEvent, recordEvents } from '#domains/error-tracking/event.ts';
import { prepareEvent } from '#domains/error-tracking/prepared-event.ts';
import { signedIn, Visitor } from '../pages/visitor.ts';
import { useApp } from '../support/app.ts';
import { errorEvent, exception, frame } from '../support/error-events.ts';
import { mutate } from '../support/graphql.ts';
import { linkTo } from '../support/mails.ts';

const app = useApp();

const record = (...events: readonly NormalizedEvent[]) =>
  app()
    .context()
    .transaction((tx) => recordEvents(tx, events.map(prepareEvent)));

const setUp = async () => {
  const above = await app().make.group();
  const group = await app().make.group({ parent_id: above.id });
  const project = await app().make.project({ visibility: 'private', namespace_id: group.id });
  const reporter = await signedIn(app());
  await app().make.projectMember(project, reporter.user, 20);
  const path: string = project.path_with_namespace;
  return { project, path, reporter };
};

const frames = [
  frame('main', { lineno: 3 }),
  frame('load', { lineno: 7, colno: 2, context_line: '    return carts[id]' }),
  frame('get', { filename: 'library.py', in_app: false, context_line: 'raise KeyError' }),
];

describe('the page of an error', () => {
  it('is where mails lead, and shows the error with its newest event', async () => {
    const { project, path, reporter } = await setUp();
    await mutate(app().as(reporter.user), 'errorTrackingNotificationsSet', { projectPath: path, enabled: true });
    await record(
      errorEvent(project.id, {
        exceptions: [exception('KeyError', '<b>42</b>', frames), exception('CartError', 'no cart')],
        message: { template: null, formatted: 'Checkout & payment' },
        stack: [frame('idle')],
        request: {
          url: 'https://shop.example/cart',
          method: 'POST',
          query_string: null,
          cookies: null,
          headers: {},
          env: {},
          data: null,
        },
        environment: 'production',
        release: 'shop@1.0',
        tags: { browser: 'Firefox' },
      }),
    );
    const link = await linkTo(app(), `${reporter.user.username}@example.com`, `/${path}/-/error_tracking/`);
    const { status, text, html } = await reporter.visitor.get(link);
    expect([status, html]).toEqual([200, expect.not.stringMatching(/<b>|<script|\sstyle=/)]);
    for (const part of [
      'CartError: no cart',
      'Caused by KeyError: <b>42</b>',
      'State unresolved Level error',
      'Events 1 Affected users 0',
      ', release shop@1.0',
      ', production',
      'Checkout & payment',
      'POST https://shop.example/cart',
      'get (library.py:1) load (app.py:7:2) return carts[id] main (app.py:3)',
      'idle (app.py:1)',
      'browser Firefox',
    ])
      expect(text).toContain(part);
    expect(text).not.toContain('raise KeyError');

    const list = await reporter.visitor.get(`/${path}/-/error_tracking`);
    expect(list.html).toContain(`href="${link}"`);
    expect(list.text).toContain('CartError: no cart');
  });

  it('is found after its project was renamed, and without events', async () => {
    const { project, path, reporter } = await setUp();
    await record(errorEvent(project.id));
    const { rows } = await app().hub.services.pool.query('select id from errors where project_id = $1', [project.id]);
    const details = (full: string) => `/${full}/-/error_tracking/${rows[0].id}/details`;
    await app().as(app().root).put(`/projects/${project.id}`, { path: 'renamed' });
    const renamed = path.replace(/[^/]*$/, 'renamed');
    expect(await reporter.visitor.get(details(path))).toMatchObject({ status: 303, location: details(renamed) });
    await app().hub.services.pool.query('delete from error_events where project_id = $1', [project.id]);
    const { status, text } = await reporter.visitor.follow();
    expect([status, text]).toEqual([200, expect.stringContaining('Its events are no longer kept.')]);
  });

  it('is for those who may read errors, as the list is', async () => {
    const { project, path, reporter } = await setUp();
    await record(errorEvent(project.id));
    const { rows } = await app().hub.services.pool.query('select id from errors where project_id = $1', [project.id]);
    const [guest, stranger] = [await signedIn(app()), await signedIn(app())];
    await app().make.projectMember(project, guest.user, 10);
    for (const address of [`/${path}/-/error_tracking`, `/${path}/-/error_tracking/${rows[0].id}/details`]) {
      expect(await new Visitor(app().url).get(address)).toMatchObject({
        status: 303,
        location: `/users/sign_in?return_to=${encodeURIComponent(address)}`,
      });
      expect((await reporter.visitor.get(address)).status).toBe(200);
      expect((await guest.visitor.get(address)).status).toBe(403);
      const { status, text } = await stranger.visitor.get(address);
      expect([status, text]).toEqual([404, expect.not.stringContaining('ValueError')]);
    }
    expect((await reporter.visitor.get(`/${path}/-/error_tracking/999999999/details`)).status).toBe(404);
  });
});

describe('the list of errors', () => {
  it('has pages', async () => {
    const { project, path, reporter } = await setUp();
    const { visitor } = reporter;
    const address = `/${path}/-/error_tracking`;
    expect((await visitor.get(address)).text).toContain('There are none.');
    const types = Array.from({ length: 21 }, (_, n) => `Error${n}`);
    await record(...types.map((type) => errorEvent(project.id, { exceptions: [exception(type, 'x', [frame(type)])] })));
    const titlesOf = (html: string) => html.match(/Error\d+: x/g) ?? [];
    const first = titlesOf((await visitor.get(address)).html);
    expect(visitor.page.html).toContain(`rel="next" href="${address}?page=2"`);
    const second = titlesOf((await visitor.get(`${address}?page=2`)).html);
    expect(visitor.page.html).not.toContain('rel="next"');
    expect([first.length, second.length, new Set([...first, ...second]).size]).toEqual([20, 1, 21]);
  });
});
