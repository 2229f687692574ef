import { randomBytes } from 'node:crypto';

const ID = 'eeeeeeeeeeeeeeeeeeeeeeeeeeeeeeee';
/** The number of different errors. */
const ERRORS = 500;

/** An event as SDKs send it, of about this size, with a stack, breadcrumbs and tags. */
const eventOf = (error: number, bytes: number): object => {
  const frames = Array.from({ length: 12 }, (_, i) => ({
    ...{ function: `handle${error}_${i}`, module: `app.module${i}`, filename: `app/module${i}.js`, in_app: i > 3 },
    ...{ lineno: 10 + i, colno: 7, context_line: `  return handle(request, ${i});` },
  }));
  const event = {
    ...{ event_id: ID, platform: 'node', level: 'error', release: `shop@1.${error % 5}`, environment: 'production' },
    ...{ transaction: `GET /carts/${error}`, server_name: `web-${error % 4}`, user: { id: String(error % 997) } },
    tags: { browser: `Browser ${error % 7}`, region: `region-${error % 3}` },
    exception: { values: [{ type: `Error${error}`, value: `cart ${error} is missing`, stacktrace: { frames } }] },
    breadcrumbs: [] as object[],
    sdk: { name: 'sentry.javascript.node', version: '10.0.0' },
  };
  for (let i = 0; JSON.stringify(event).length < bytes - 120; i++) {
    event.breadcrumbs.push({
      ...{ timestamp: Date.now() / 1_000 - i, category: 'http', type: 'http', level: 'info' },
      ...{ message: `GET /items/${error}/${i}`, data: { status_code: 200, note: 'x'.repeat(bytes / 120) } },
    });
  }
  return event;
};

/** Envelopes of about this size, each with an event id of its own. */
export const envelopesOf = (bytes: number): (() => string) => {
  const templates = Array.from({ length: ERRORS }, (_, error) =>
    [JSON.stringify({ event_id: ID }), JSON.stringify({ type: 'event' }), JSON.stringify(eventOf(error, bytes))].join(
      '\n',
    ),
  );
  let count = 0;
  return () => (templates[count++ % ERRORS] ?? '').replaceAll(ID, randomBytes(16).toString('hex'));
};
