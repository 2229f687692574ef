import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { fileURLToPath } from 'node:url';
import { describe, expect, test } from 'vitest';
import { ConfigError, helpText, readConfig, settingInfos, wantsHelp } from '#platform/config/config.ts';

const CERTIFICATE = readFileSync(new URL('../saml/fixtures/provider.crt', import.meta.url), 'utf8');
const LDAP = { name: 'ldapmain', url: 'ldaps://ldap.example.com:636', base: 'dc=example,dc=com' };

test('uses the defaults without flags and variables', () => {
  expect(readConfig([], {})).toEqual({
    host: '127.0.0.1',
    port: 8080,
    externalUrl: null,
    trustedProxies: [],
    metricsAddress: null,
    metricsToken: null,
    dataDir: resolve('.millrace'),
    role: 'all',
    adminToken: null,
    adminPassword: null,
    gitMemory: 192,
    gitProcesses: 24,
    logLevel: 'info',
    databaseUrl: null,
    secretKey: null,
    replaceSecretKey: false,
    storage: 'local',
    s3Bucket: null,
    s3Downloads: 'proxy',
    smtpUrl: null,
    mailFrom: null,
    connections: 10_000,
    connectionsPerAddress: 6_000,
    requestGrace: 30,
    requestMinimumRate: 1_024,
    streamsPerUser: 200,
    streamsPerAddress: 6_000,
    subscriptionsPerUser: 1_000,
    subscriptionsPerAddress: 10_000,
    streamMemoryPerUser: 32,
    streamMemoryPerAddress: 64,
    streamMemory: 128,
    runnerPollSeconds: 50,
    samlEntryPoint: null,
    samlCertificates: [],
    samlEntityId: null,
    samlAttributes: { email: 'email', name: 'name', username: 'username', groups: 'groups' },
    samlCreateUsers: false,
    samlLabel: 'SAML',
    ldapServers: [],
  });
});

test('reads every setting from a variable and from a flag, and prefers the flag', () => {
  const values: Record<string, string> = {
    host: '::',
    port: '0',
    'external-url': 'https://hub.example.com/',
    'trusted-proxies': '10.0.0.0/8, ::1,192.0.2.7',
    'metrics-address': '[::1]:9090',
    'metrics-token': 'a-token-of-the-scraper',
    'data-dir': '/srv/hub',
    role: 'worker',
    'admin-token': 'a-token-of-twenty-chars',
    'admin-password': 'correct horse',
    'git-memory': '512',
    'git-processes': '48',
    connections: '200',
    'connections-per-address': '100',
    'request-grace': '60',
    'request-minimum-rate': '512',
    'streams-per-user': '20',
    'streams-per-address': '40',
    'subscriptions-per-user': '100',
    'subscriptions-per-address': '200',
    'stream-memory-per-user': '16',
    'stream-memory-per-address': '64',
    'stream-memory': '512',
    'runner-poll-seconds': '7',
    'log-level': 'debug',
    'database-url': 'postgresql://u:p@db.example.com:5433/hub?sslmode=require',
    'secret-key': `${'A'.repeat(43)}=`,
    'replace-secret-key': 'true',
    storage: 's3',
    's3-bucket': 'my-bucket',
    's3-downloads': 'redirect',
    'smtp-url': 'smtps://hub:p%40ss@mail.example.com:465',
    'mail-from': 'hub@example.com',
    'saml-entry-point': 'https://id.example.com/sso?tenant=1',
    'saml-certificate': CERTIFICATE,
    'saml-entity-id': 'urn:hub',
    'saml-attributes': 'groups=http://schemas.example.com/claims/groups, email=mail',
    'saml-create-users': 'true',
    'saml-label': 'Example ID',
    'ldap-servers': JSON.stringify([LDAP]),
  };
  const infos = settingInfos();
  expect(infos.map(({ flag }) => flag).sort()).toEqual(Object.keys(values).sort());
  const byVariable = readConfig([], Object.fromEntries(infos.map(({ flag, variable }) => [variable, values[flag]])));
  const byFlag = readConfig(
    Object.entries(values).map(([flag, value]) => `--${flag}=${value}`),
    {},
  );
  expect(byFlag).toEqual(byVariable);
  expect(byFlag).toMatchObject({
    port: 0,
    externalUrl: 'https://hub.example.com',
    trustedProxies: ['10.0.0.0/8', '::1', '192.0.2.7'],
    metricsAddress: { host: '::1', port: 9090 },
    dataDir: '/srv/hub',
    role: 'worker',
    samlCertificates: [CERTIFICATE],
    samlAttributes: { groups: 'http://schemas.example.com/claims/groups', email: 'mail', username: 'username' },
    samlCreateUsers: true,
    replaceSecretKey: true,
    ldapServers: [{ ...LDAP, uid: 'uid', verify_certificates: true, create_users: false }],
  });
  expect(readConfig(['--port=81'], { MILLRACE_PORT: '80' }).port).toBe(81);
  expect(readConfig([], { MILLRACE_PORT: '' }).port).toBe(8080);
});

test('lists every flag, variable and default in the help', () => {
  const help = helpText();
  for (const { flag, variable, defaultText, description } of settingInfos()) {
    for (const text of [`--${flag} `, variable, defaultText, description]) expect(help).toContain(text);
  }
  expect(wantsHelp(['--port', '1', '--help'])).toBe(true);
  expect(wantsHelp(['--port', '1'])).toBe(false);
});

test('reads SAML certificates and LDAP servers from files', () => {
  const path = fileURLToPath(new URL('../saml/fixtures/provider.crt', import.meta.url));
  expect(readConfig(['--saml-certificate', path], {}).samlCertificates).toEqual([CERTIFICATE]);
  expect(() => readConfig(['--ldap-servers', path], {})).toThrow('is not JSON');
});

describe('a bad value is refused by name', () => {
  test.each([
    ['MILLRACE_HOST', 'a b', 'host name or an IP'],
    ['MILLRACE_PORT', '65536', '0 to 65535'],
    ['MILLRACE_PORT', '-1', '0 to 65535'],
    ['MILLRACE_PORT', 'tcp://10.0.0.1:80', '0 to 65535'],
    ['MILLRACE_EXTERNAL_URL', 'hub.example.com', 'http or https'],
    ['MILLRACE_EXTERNAL_URL', 'ftp://hub.example.com', 'http or https'],
    ['MILLRACE_EXTERNAL_URL', 'https://u:p@hub.example.com', 'without user'],
    ['MILLRACE_EXTERNAL_URL', 'https://hub.example.com/?a=b', 'query'],
    ['MILLRACE_TRUSTED_PROXIES', 'proxy.example.com', 'addresses and ranges'],
    ['MILLRACE_TRUSTED_PROXIES', '10.0.0.0/33', 'addresses and ranges'],
    ['MILLRACE_METRICS_ADDRESS', '9090', 'and a port'],
    ['MILLRACE_METRICS_ADDRESS', '127.0.0.1:65536', 'and a port'],
    ['MILLRACE_METRICS_ADDRESS', '::1:9090', 'and a port'],
    ['MILLRACE_METRICS_ADDRESS', 'http://127.0.0.1:9090', 'and a port'],
    ['MILLRACE_ROLE', 'everything', 'all, web, worker'],
    ['MILLRACE_LOG_LEVEL', 'loud', 'trace, debug, info'],
    ['MILLRACE_STORAGE', 'gcs', 'local, s3'],
    ['MILLRACE_S3_BUCKET', 'A_B', 'name of a bucket'],
    ['MILLRACE_SAML_ENTRY_POINT', 'id.example.com', 'http or https'],
    ['MILLRACE_SAML_CERTIFICATE', '/nowhere/id.crt', 'is not a readable file'],
    ['MILLRACE_SAML_CERTIFICATE', '-----BEGIN PUBLIC KEY-----', 'holds no certificate'],
    ['MILLRACE_SAML_ATTRIBUTES', 'mail', 'a list such as'],
    ['MILLRACE_SAML_CREATE_USERS', 'yes', 'true or false'],
  ])('%s=%s', (variable, value, allowed) => {
    const read = () => readConfig([], { [variable]: value });
    expect(read).toThrow(ConfigError);
    expect(read).toThrow(variable);
    expect(read).toThrow(JSON.stringify(value));
    expect(read).toThrow(allowed);
  });

  test.each([
    ['MILLRACE_ADMIN_TOKEN', 'nineteen-characters', '20 to 255'],
    ['MILLRACE_ADMIN_TOKEN', 'with a space in the middle of it', 'without spaces'],
    ['MILLRACE_METRICS_TOKEN', 'too-short', '20 to 255'],
    ['MILLRACE_ADMIN_PASSWORD', 'sesame', '8 to 128'],
    ['MILLRACE_SECRET_KEY', 'too-short-a-key', '32 bytes in base64'],
    ['MILLRACE_LDAP_SERVERS', '{"password": "hunter2"', 'is not JSON'],
    ['MILLRACE_LDAP_SERVERS', 'password: hunter2', 'is not a readable file'],
    ['MILLRACE_LDAP_SERVERS', JSON.stringify([{ ...LDAP, url: 'http://hunter2' }]), '0.url: is not of the form'],
    ['MILLRACE_LDAP_SERVERS', JSON.stringify([{ ...LDAP, name: 'main' }]), '0.name: must start with ldap'],
    ['MILLRACE_LDAP_SERVERS', JSON.stringify([{ ...LDAP, user_filter: '(a' }]), '0.user_filter: is not a filter'],
    ['MILLRACE_LDAP_SERVERS', JSON.stringify([LDAP, LDAP]), 'two servers have the same name'],
    ['DATABASE_URL', 'mysql://user:hunter2@host/db', 'postgresql://'],
  ])('%s, without repeating its value', (variable, value, allowed) => {
    const read = () => readConfig([], { [variable]: value });
    expect(read).toThrow(variable);
    expect(read).toThrow(allowed);
    expect(read).not.toThrow(value);
  });

  test('names every bad value', () => {
    const read = () => readConfig(['--port', 'x'], { MILLRACE_ROLE: 'y' });
    expect(read).toThrow('MILLRACE_PORT');
    expect(read).toThrow('MILLRACE_ROLE');
  });

  test('includes unknown flags, stray words, flags without a value, S3 without a bucket', () => {
    expect(() => readConfig(['--prot', '1'], {})).toThrow(/--prot.*--help/s);
    expect(() => readConfig(['serve'], {})).toThrow(ConfigError);
    expect(() => readConfig(['--port'], {})).toThrow(/--port/);
    expect(() => readConfig(['--storage', 's3'], {})).toThrow(/MILLRACE_S3_BUCKET/);
  });

  test('includes SAML without a certificate', () => {
    const read = () => readConfig([], { MILLRACE_SAML_ENTRY_POINT: 'https://id.example.com/sso' });
    expect(read).toThrow('MILLRACE_SAML_CERTIFICATE');
  });
});
