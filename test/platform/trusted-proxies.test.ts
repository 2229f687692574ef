import { IncomingMessage } from 'node:http';
import { Socket } from 'node:net';
import { describe, expect, it, test } from 'vitest';
import { callerAddress, trustOf } from '#platform/caller/trusted-proxies.ts';
import { useApp } from '../support/app.ts';
import { until } from '../support/until.ts';

const from = (remoteAddress: string, forwarded?: string) => {
  const socket = new Socket();
  Object.defineProperty(socket, 'remoteAddress', { value: remoteAddress });
  const request = new IncomingMessage(socket);
  if (forwarded !== undefined) request.headers['x-forwarded-for'] = forwarded;
  return request;
};

test.each([
  ['198.51.100.1', undefined, '198.51.100.1'],
  ['198.51.100.1', '203.0.113.9', '198.51.100.1'],
  ['10.1.2.3', '203.0.113.9', '203.0.113.9'],
  ['::ffff:10.1.2.3', '203.0.113.9', '203.0.113.9'],
  // The value that the caller made up comes before the entries of our proxies.
  ['10.1.2.3', '127.0.0.1, 203.0.113.9', '203.0.113.9'],
  ['10.1.2.3', '203.0.113.9, 10.9.9.9', '203.0.113.9'],
  ['10.1.2.3', 'unknown', '10.1.2.3'],
  ['10.1.2.3', '', '10.1.2.3'],
  ['2001:db8::1', '2001:db8:1::5', '2001:db8:1::5'],
])('a request from %s with X-Forwarded-For %s has the caller %s', (remote, forwarded, caller) => {
  expect(callerAddress(from(remote, forwarded), trustOf(['10.0.0.0/8', '2001:db8::/64']))).toBe(caller);
});

describe('a hub behind a proxy', () => {
  const app = useApp({ env: { MILLRACE_TRUSTED_PROXIES: '127.0.0.1, ::1' } });
  const other = useApp();
  const addressSeen = async (hub: typeof app) => {
    // The rate limit counts by address.
    await hub().as(hub().root).put('/application/settings', throttled);
    await hub().anonymous.get('/projects', { 'x-forwarded-for': '203.0.113.77' });
    const found = await until('the address is counted', () =>
      hub()
        .hub.services.db.selectFrom('rate_counts')
        .select('key')
        .where('key', 'like', 'throttle_unauthenticated_api:%')
        .executeTakeFirst(),
    );
    return found.key;
  };

  it('uses the address that the proxy forwards, but only if the proxy is trusted', async () => {
    expect(await addressSeen(app)).toContain('203.0.113.77');
    expect(await addressSeen(other)).not.toContain('203.0.113.77');
  });
});

const throttled = { throttle_unauthenticated_api_enabled: true };
