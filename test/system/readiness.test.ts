import { describe, expect, it } from 'vitest';
import { startTestApp, useApp } from '../support/app.ts';

const app = useApp();
const ok = { status: 'ok' };

describe('GET /-/readiness', () => {
  it('reports ready with a database, a worker and storage', async () => {
    const { status, body } = await app().anonymous.get('/-/readiness');
    expect([status, body]).toEqual([200, { status: 'ok', database: ok, worker: ok, storage: ok }]);
  });

  it('reports not ready without a worker process, because no job would run', async () => {
    const alone = await startTestApp({ env: { MILLRACE_ROLE: 'web' } });
    try {
      const { status, body } = await alone.anonymous.get('/-/readiness');
      expect([status, body]).toEqual([
        503,
        { status: 'failed', database: ok, worker: { status: 'failed' }, storage: ok },
      ]);
      expect((await alone.anonymous.get('/-/liveness')).status).toBe(200);
    } finally {
      await alone.close();
    }
  });
});
