import { describe, expect, test } from 'vitest';
import { type AddressPolicy, checkAddress, parseOutboundUrl } from '#platform/http-client/address-guard.ts';
import { validHeader } from '#platform/http-client/headers.ts';

const closed: AddressPolicy = { allowLocal: false, allowlist: [] };
const open: AddressPolicy = { allowLocal: true, allowlist: [] };

describe('checkAddress', () => {
  test.each([
    ['93.184.216.34', 'allowed'],
    ['2606:2800:220:1:248:1893:25c8:1946', 'allowed'],
    ['64:ff9b::5db8:d822', 'allowed'],
    ['127.0.0.1', 'loopback'],
    ['127.255.3.4', 'loopback'],
    ['::1', 'loopback'],
    ['::ffff:127.0.0.1', 'loopback'],
    ['::ffff:10.1.2.3', 'private'],
    ['10.0.0.1', 'private'],
    ['172.16.5.4', 'private'],
    ['192.168.1.1', 'private'],
    ['100.64.0.1', 'private'],
    ['fc00::1', 'private'],
    ['fd12:3456::1', 'private'],
  ])('%s is %s when local requests are off', (address, verdict) => {
    expect(checkAddress(address, closed)).toBe(verdict);
    expect(checkAddress(address, open)).toBe('allowed');
  });

  test.each([
    ['169.254.169.254', 'metadata'],
    ['::ffff:169.254.169.254', 'metadata'],
    ['fd00:ec2::254', 'metadata'],
    ['100.100.100.200', 'metadata'],
    ['169.254.1.1', 'link_local'],
    ['fe80::1', 'link_local'],
    ['fe80::1%eth0', 'link_local'],
    ['0.0.0.0', 'unspecified'],
    ['0.1.2.3', 'unspecified'],
    ['::', 'unspecified'],
    ['224.0.0.1', 'multicast'],
    ['ff02::1', 'multicast'],
    ['255.255.255.255', 'reserved'],
    ['240.0.0.1', 'reserved'],
    ['192.0.2.1', 'reserved'],
    ['198.18.0.1', 'reserved'],
    ['64:ff9b::7f00:1', 'reserved'],
    ['64:ff9b::a9fe:a9fe', 'reserved'],
    ['64:ff9b:1::1', 'reserved'],
    ['2002:7f00:1::', 'reserved'],
    ['::7f00:1', 'reserved'],
    ['fec0::1', 'reserved'],
    ['2001:db8::1', 'reserved'],
    ['not an address', 'invalid'],
    ['', 'invalid'],
  ])('%s is %s under every policy', (address, verdict) => {
    const listed: AddressPolicy = { allowLocal: true, allowlist: ['0.0.0.0/0', '::/0', address] };
    for (const policy of [closed, open, listed]) expect(checkAddress(address, policy)).toBe(verdict);
  });

  test('the allow-list permits addresses, ranges, hosts and single ports', () => {
    const policy: AddressPolicy = {
      allowLocal: false,
      allowlist: [
        '10.1.0.0/16',
        '192.168.7.7',
        '192.168.8.8:8080',
        'inner.example',
        'other.example:9000',
        '[fd00::5]:81',
      ],
    };
    const at = (address: string, host: string, port: number) => checkAddress(address, policy, { host, port });
    expect(at('10.1.200.3', '10.1.200.3', 80)).toBe('allowed');
    expect(at('::ffff:10.1.200.3', 'x.example', 80)).toBe('allowed');
    expect(at('10.2.0.1', '10.2.0.1', 80)).toBe('private');
    expect(at('192.168.7.7', '192.168.7.7', 80)).toBe('allowed');
    expect(at('192.168.8.8', '192.168.8.8', 8080)).toBe('allowed');
    expect(at('192.168.8.8', '192.168.8.8', 8081)).toBe('private');
    expect(at('10.9.9.9', 'inner.example', 443)).toBe('allowed');
    expect(at('10.9.9.9', 'sub.inner.example', 443)).toBe('private');
    expect(at('127.0.0.1', 'other.example', 9000)).toBe('allowed');
    expect(at('127.0.0.1', 'other.example', 9001)).toBe('loopback');
    expect(at('fd00::5', 'fd00::5', 81)).toBe('allowed');
    expect(at('fd00::5', 'fd00::5', 82)).toBe('private');
  });
});

describe('parseOutboundUrl', () => {
  test.each([
    'http://127.0.0.1/',
    'http://127.1/',
    'http://0x7f.1/',
    'http://0177.0.0.1/',
    'http://2130706433/',
    'http://0/',
    'http://[::1]/',
    'http://[::ffff:127.0.0.1]/',
    'http://[::ffff:7f00:1]/',
    'http://[64:ff9b::7f00:1]/',
    'http://localhost/',
    'http://LOCALHOST./',
    'http://hooks.localhost/',
    'http://169.254.169.254/latest/meta-data',
    'http://①②⑦.0.0.1/',
    'http://user:secret@127.0.0.1/',
    'http:127.0.0.1',
    'ftp://example.com/',
    'file:///etc/passwd',
    'gopher://example.com/',
    'javascript:alert(1)',
    'data:text/plain,hi',
    'http://',
    'example.com/hook',
    '',
    'http://example.com:22/',
    'http://example.com:25/',
    'http://example.com:6379/',
    `http://example.com/${'x'.repeat(3000)}`,
  ])('refuses %s', (text) => {
    expect(() => parseOutboundUrl(text, closed)).toThrow(expect.objectContaining({ kind: 'blocked' }));
  });

  test('separates the credentials from the URL and percent-decodes them', () => {
    const { url, authorization } = parseOutboundUrl('https://us%40er:p%3Ass@example.com:8443/a?b=1#c', closed);
    expect(url.href).toBe('https://example.com:8443/a?b=1');
    expect(authorization).toBe(`Basic ${Buffer.from('us@er:p:ss').toString('base64')}`);
    expect(parseOutboundUrl('https://example.com/', closed).authorization).toBeNull();
    expect(() => parseOutboundUrl('https://a%ff:b@example.com/', closed)).toThrow('URL is not valid');
  });

  test('a port on the allow-list is allowed for that host only', () => {
    const policy: AddressPolicy = { allowLocal: false, allowlist: ['db.example:5432', '10.0.0.5:6379'] };
    expect(parseOutboundUrl('http://db.example:5432/', policy).url.port).toBe('5432');
    expect(parseOutboundUrl('http://10.0.0.5:6379/', policy).url.port).toBe('6379');
    expect(() => parseOutboundUrl('http://db2.example:5432/', policy)).toThrow('port 5432');
  });

  test('permits local names if the policy permits local requests', () => {
    expect(parseOutboundUrl('http://localhost:8080/', open).url.host).toBe('localhost:8080');
    expect(parseOutboundUrl('http://localhost:8080/', { allowLocal: false, allowlist: ['localhost'] }).url.port).toBe(
      '8080',
    );
  });
});

describe('validHeader', () => {
  test.each([
    ['X-Custom', 'value'],
    ['Authorization', 'Bearer abc'],
    ['X-Empty', ''],
    ['X-Latin', 'caf\u00e9'],
  ])('accepts %s: %s', (name, value) => {
    expect(validHeader(name, value)).toBe(true);
  });

  test.each([
    ['X-Bad', 'a\r\nX-Other: b'],
    ['X-Bad', 'a\nb'],
    ['X-Bad', 'a\0b'],
    ['X-Bad', 'snow \u2603'],
    ['X Bad', 'a'],
    ['X-Bad\r\nY', 'a'],
    ['', 'a'],
    ['Bad:', 'a'],
    ['Host', 'inner'],
    ['hOST', 'inner'],
    ['Content-Length', '5'],
    ['Transfer-Encoding', 'chunked'],
    ['Connection', 'close'],
    ['Upgrade', 'h2c'],
    ['Expect', '100-continue'],
  ])('refuses %j: %j', (name, value) => {
    expect(validHeader(name, value)).toBe(false);
  });
});
