import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';

const TOKEN = 'token-of-who-reads-the-metrics';

describe('the metrics page', () => {
  describe('of a hub without metrics settings', () => {
    const app = useApp();

    it('is served to no one, not even administrators', async () => {
      expect(app().hub.metricsUrl).toBeNull();
      expect((await app().anonymous.get('/-/metrics')).status).toBe(404);
      expect((await app().as(app().root).get('/-/metrics')).status).toBe(404);
    });
  });

  describe('of a hub with a metrics address', () => {
    const app = useApp({ env: { MILLRACE_METRICS_ADDRESS: '127.0.0.1:0' } });

    it('is served only at that address, which serves nothing else', async () => {
      expect((await app().anonymous.get('/-/metrics')).status).toBe(404);
      const { metricsUrl } = app().hub;
      if (metricsUrl === null) throw new Error('the metrics are not served');
      const answer = await fetch(metricsUrl);
      expect(answer.headers.get('content-type')).toContain('text/plain');
      const text = await answer.text();
      expect(text).toMatch(/^millrace_http_request_duration_seconds_count\{.*status="404"\} 1$/m);
      expect(text).toMatch(/^millrace_cache_entries\{cache="settings"\} 1$/m);
      expect(text).toMatch(/^millrace_cache_lookups_total\{cache="settings",result="hit"\} \d+$/m);
      expect(text).toMatch(/^millrace_answers\{state="running"\} 0$/m);
      expect(text).toMatch(/^millrace_answers\{state="waiting"\} 0$/m);
      expect(text).toMatch(/^millrace_unsent_answer_bytes 0$/m);
      for (const path of ['/api/v4/version', '/-/readiness', '/', '/-/metrics/x']) {
        expect((await fetch(new URL(path, metricsUrl))).status).toBe(404);
      }
    });
  });

  describe('of a hub with a metrics token', () => {
    const app = useApp({ env: { MILLRACE_METRICS_TOKEN: TOKEN } });

    it('is served to callers with the token', async () => {
      const ask = (headers: Record<string, string>) => fetch(`${app().url}/-/metrics`, { headers });
      expect((await ask({ authorization: `Bearer ${TOKEN}` })).status).toBe(200);
      const wrong: Record<string, string>[] = [
        {},
        { authorization: `Bearer ${TOKEN}x` },
        { authorization: TOKEN },
        { 'private-token': TOKEN },
      ];
      for (const headers of wrong) {
        const answer = await ask(headers);
        expect(answer.status).toBe(401);
        expect(await answer.text()).not.toContain('millrace_');
      }
      // It is not an access token.
      expect((await fetch(`${app().url}/api/v4/user`, { headers: { 'private-token': TOKEN } })).status).toBe(401);
    });
  });

  describe('of a hub with both', () => {
    const app = useApp({ env: { MILLRACE_METRICS_ADDRESS: '127.0.0.1:0', MILLRACE_METRICS_TOKEN: TOKEN } });

    it('is served only at the address, to callers with the token', async () => {
      const headers = { authorization: `Bearer ${TOKEN}` };
      expect((await fetch(`${app().url}/-/metrics`, { headers })).status).toBe(404);
      const { metricsUrl } = app().hub;
      if (metricsUrl === null) throw new Error('the metrics are not served');
      expect((await fetch(metricsUrl)).status).toBe(401);
      expect((await fetch(metricsUrl, { headers })).status).toBe(200);
    });
  });
});
