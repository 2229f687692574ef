// An application that reports what happens to it, with @sentry/node as it is. Prints the event ids as JSON.
import * as Sentry from '@sentry/node';

Sentry.init({
  dsn: process.env.SENTRY_DSN,
  release: 'shop@1.2.3',
  environment: 'live',
  tracesSampleRate: 0,
  initialScope: { tags: { area: 'checkout' }, user: { id: '42', email: 'ada@example.com' } },
});

const readCart = () => {
  const password = 'secret of the frame';
  throw new TypeError(`cart is undefined (${password.length})`);
};

/** @type {Record<string, string>} */
const ids = {};
try {
  try {
    readCart();
  } catch (cause) {
    throw new Error('could not check out', { cause });
  }
} catch (error) {
  ids.chained = Sentry.captureException(error);
}
ids.message = Sentry.captureMessage('the stock is low', 'warning');
Sentry.withScope((scope) => {
  scope.addAttachment({ filename: 'cart.json', data: '{"items": []}' });
  scope.addBreadcrumb({ category: 'cart', message: 'opened' });
  scope.setExtra('authToken', 'secret of the extra');
  ids.attached = Sentry.captureException(new RangeError('with an attachment'));
});
Sentry.startSession();
Sentry.captureSession();
Sentry.endSession();
ids.long = Sentry.captureMessage('x'.repeat(60_000));
const flushed = await Sentry.flush(20_000);
console.log(JSON.stringify({ ids, flushed }));
