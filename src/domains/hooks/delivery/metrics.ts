import { Counter, Histogram } from 'prom-client';

export const deliveriesEnded = new Counter({
  name: 'millrace_webhook_attempts_total',
  help: 'Attempts to deliver to a webhook, by outcome.',
  labelNames: ['outcome'],
});

export const deliveryDuration = new Histogram({
  name: 'millrace_webhook_attempt_duration_seconds',
  help: 'How long receivers of webhooks took to answer.',
  buckets: [0.01, 0.05, 0.1, 0.5, 1, 2, 5, 10],
});
