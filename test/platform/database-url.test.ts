import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { createServer, type Server, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createSecureContext, TLSSocket } from 'node:tls';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { openDatabase } from '#app/database.ts';
import { ConfigError, readConfig } from '#platform/config/config.ts';
import { createLogger } from '#platform/log.ts';
import { localhostCertificate, localhostKey } from './localhost-certificate.ts';

// A server that speaks enough of the protocol of Postgres to encrypt a connection, and then refuses it.

const TLS_REQUEST_BYTES = 8;
const REFUSAL = 'no more connections';

const int32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeInt32BE(value);
  return bytes;
};
const message = (type: string, ...body: (string | Buffer)[]): Buffer => {
  const content = Buffer.concat(body.map((part) => Buffer.from(part)));
  return Buffer.concat([Buffer.from(type), int32(4 + content.length), content]);
};

const refuse = (socket: Socket): void => {
  socket.end(message('E', `SFATAL\0C53300\0M${REFUSAL}\0\0`));
};

/** Answers like a server that never got the settings of the session. */
const acceptWithoutSettings = (socket: Socket): void => {
  const ready = message('Z', 'I');
  socket.write(Buffer.concat([message('R', int32(0)), ready]));
  const column = Buffer.alloc(18);
  const shown = Buffer.concat([
    message('T', '\0\x01', 'plan_cache_mode\0', column),
    message('D', '\0\x01', int32(4), 'auto'),
    message('C', 'SHOW\0'),
    ready,
  ]);
  socket.once('data', () => socket.write(shown));
};

const encrypt = (socket: Socket): void => {
  const secureContext = createSecureContext({ key: localhostKey, cert: localhostCertificate });
  const secured = new TLSSocket(socket, { isServer: true, secureContext });
  secured.on('error', () => {});
  secured.once('data', () => refuse(secured));
};

let directory: string;
let server: Server;
let port: number;
const sockets = new Set<Socket>();
beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'database-url-'));
  await writeFile(join(directory, 'ca.crt'), localhostCertificate);
  server = createServer((socket) => {
    sockets.add(socket);
    socket.on('error', () => {});
    socket.once('data', (first) => {
      if (first.includes('through_pooler')) acceptWithoutSettings(socket);
      else if (first.length > TLS_REQUEST_BYTES) refuse(socket);
      else socket.write('S', () => encrypt(socket));
    });
  }).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  port = typeof address === 'object' && address !== null ? address.port : 0;
});
afterAll(async () => {
  for (const socket of sockets) socket.destroy();
  server.close();
  await rm(directory, { recursive: true });
});

const open = (url: string) =>
  openDatabase(readConfig([], { DATABASE_URL: url, MILLRACE_DATA_DIR: directory }), createLogger('fatal'));
const urlOf = (query: string) => `postgresql://hub:secret@127.0.0.1:${port}/hub${query}`;

describe('a database that cannot be reached', () => {
  it('is reported with the name of the setting, and without the password', async () => {
    const failure = await open(urlOf('')).catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(ConfigError);
    expect(String(failure)).toContain(`DATABASE_URL (--database-url): cannot connect to the database: ${REFUSAL}`);
    expect(String(failure)).not.toContain('secret');
    await expect(open('postgresql://hub:secret@127.0.0.1:1/hub')).rejects.toThrow('connect ECONNREFUSED 127.0.0.1:1');
    await expect(open(urlOf('?sslmode=verify-full&sslrootcert=/missing.crt'))).rejects.toThrow('/missing.crt');
  });
});

it('is refused if it is behind a pooler that drops the settings of the session', async () => {
  const url = `postgresql://hub:secret@127.0.0.1:${port}/through_pooler`;
  await expect(open(url)).rejects.toThrow('a pooler drops the settings of the session; connect directly to Postgres');
});

describe('sslmode', () => {
  it.each(['require', 'prefer', 'no-verify'])('%s encrypts and does not check the certificate', async (mode) => {
    await expect(open(urlOf(`?sslmode=${mode}`))).rejects.toThrow(REFUSAL);
  });

  it.each(['verify-full', 'verify-ca', 'require'])('%s checks the certificate by a given one', async (mode) => {
    await expect(open(urlOf(`?sslrootcert=${directory}/ca.crt&sslmode=${mode}`))).rejects.toThrow(REFUSAL);
  });

  it('verify-full refuses a certificate that nobody signed', async () => {
    await expect(open(urlOf('?sslmode=verify-full'))).rejects.toThrow('self-signed certificate');
  });
});
