import { type ChildProcess, execFileSync, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { chmod, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { Client } from 'ldapts';
import { PATIENCE_MS, until } from '../support/until.ts';

const SLAPD = ['/usr/sbin/slapd', '/usr/lib/openldap/slapd', '/usr/libexec/slapd'].find((path) => existsSync(path));
const SCHEMAS = ['/etc/ldap/schema', '/etc/openldap/schema'].find((path) => existsSync(path));
const MODULES = ['/usr/lib/ldap', '/usr/lib/openldap'].find((path) => existsSync(join(path, 'back_mdb.so')));

/** True if the OpenLDAP server is installed (Debian's package slapd). */
export const hasSlapd = SLAPD !== undefined && SCHEMAS !== undefined;

const SUFFIX = 'dc=example,dc=org';
export const PEOPLE = `ou=people,${SUFFIX}`;
export const GROUPS = `ou=groups,${SUFFIX}`;
export const ADMIN = `cn=admin,${SUFFIX}`;
export const ADMIN_PASSWORD = 'secret of the directory';
export const PERSON_PASSWORD = 'password of the person';

const fixture = (name: string): string => fileURLToPath(new URL(`./fixtures/${name}`, import.meta.url));
/** The self-signed TLS certificate of the directory. */
export const CERTIFICATE = readFileSync(fixture('directory.crt'), 'utf8');

/** A real directory server on loopback. It starts with empty branches for people and groups. */
export class Directory {
  readonly url: string;
  /** The address for TLS from the first byte. */
  readonly tlsUrl: string;
  readonly #folder: string;
  #process: ChildProcess;

  private constructor(url: string, tlsUrl: string, folder: string, process: ChildProcess) {
    this.url = url;
    this.tlsUrl = tlsUrl;
    this.#folder = folder;
    this.#process = process;
  }

  static async start(): Promise<Directory> {
    if (SLAPD === undefined) throw new Error('slapd is not installed');
    const folder = await mkdtemp(join(tmpdir(), 'millrace-slapd-'));
    await mkdir(join(folder, 'data'));
    await chmod(folder, 0o700);
    const includes = ['core', 'cosine', 'nis', 'inetorgperson'].map((name) => `include ${SCHEMAS}/${name}.schema`);
    const config = join(folder, 'slapd.conf');
    await writeFile(
      config,
      [
        ...includes,
        `pidfile ${folder}/slapd.pid`,
        ...(MODULES === undefined ? [] : [`modulepath ${MODULES}`, 'moduleload back_mdb']),
        'sizelimit unlimited',
        `TLSCertificateFile ${fixture('directory.crt')}`,
        `TLSCertificateKeyFile ${fixture('directory.key')}`,
        'database mdb',
        'maxsize 10485760',
        `suffix "${SUFFIX}"`,
        `rootdn "${ADMIN}"`,
        `rootpw "${ADMIN_PASSWORD}"`,
        `directory ${folder}/data`,
        'access to attrs=userPassword by anonymous auth by * none',
        'access to * by users read by anonymous none',
        '',
      ].join('\n'),
    );
    const branches = [
      `dn: ${SUFFIX}\nobjectClass: dcObject\nobjectClass: organization\no: Example\ndc: example`,
      `dn: ${PEOPLE}\nobjectClass: organizationalUnit\nou: people`,
      `dn: ${GROUPS}\nobjectClass: organizationalUnit\nou: groups`,
    ];
    await writeFile(join(folder, 'branches.ldif'), `${branches.join('\n\n')}\n`);
    execFileSync(SLAPD, ['-T', 'add', '-f', config, '-l', join(folder, 'branches.ldif')], { stdio: 'pipe' });
    const url = `ldap://127.0.0.1:${await freePort()}`;
    const tlsUrl = `ldaps://127.0.0.1:${await freePort()}`;
    const directory = new Directory(url, tlsUrl, folder, launch(`${url} ${tlsUrl}`, config));
    await until('the directory answers', () => directory.#answers());
    return directory;
  }

  async #answers(): Promise<boolean> {
    if (this.#process.exitCode !== null) throw new Error(`slapd has ended with ${this.#process.exitCode}`);
    try {
      await this.change(async () => {});
      return true;
    } catch {
      return false;
    }
  }

  /** Connects as the administrator of the directory, runs the function, and disconnects. */
  async change(run: (client: Client) => Promise<void>): Promise<void> {
    const client = new Client({ url: this.url, connectTimeout: PATIENCE_MS, timeout: PATIENCE_MS });
    try {
      await client.bind(ADMIN, ADMIN_PASSWORD);
      await run(client);
    } finally {
      await client.unbind().catch(() => {});
    }
  }

  /** Adds a person and returns their distinguished name. */
  async person(uid: string, attributes: Record<string, string> = {}): Promise<string> {
    const dn = `uid=${uid},${PEOPLE}`;
    await this.change((client) =>
      client.add(dn, {
        objectClass: 'inetOrgPerson',
        cn: `Name of ${uid}`,
        sn: uid,
        mail: `${uid}@corp.example`,
        userPassword: PERSON_PASSWORD,
        ...attributes,
      }),
    );
    return dn;
  }

  /** Adds a group with these members (distinguished names), or replaces its members. */
  async group(cn: string, members: readonly string[]): Promise<void> {
    const dn = `cn=${cn},${GROUPS}`;
    await this.change(async (client) => {
      await client.del(dn).catch(() => {});
      await client.add(dn, { objectClass: 'groupOfNames', member: members.length > 0 ? [...members] : [ADMIN] });
    });
  }

  /** Stops the server, as if its machine were off. */
  async stop(): Promise<void> {
    if (this.#process.exitCode !== null) return;
    const ended = new Promise((resolve) => this.#process.once('exit', resolve));
    this.#process.kill('SIGTERM');
    await ended;
  }

  /** Limits the number of entries per answer for everyone but the administrator, and restarts the server. */
  async limitSize(limit: number | 'unlimited'): Promise<void> {
    const config = join(this.#folder, 'slapd.conf');
    const text = await readFile(config, 'utf8');
    await writeFile(config, text.replace(/^sizelimit .*$/m, `sizelimit size=${limit} size.prtotal=${limit}`));
    await this.stop();
    await this.resume();
  }

  /** Starts the server again with the data it had. */
  async resume(): Promise<void> {
    this.#process = launch(`${this.url} ${this.tlsUrl}`, join(this.#folder, 'slapd.conf'));
    await until('the directory answers again', () => this.#answers());
  }

  async remove(): Promise<void> {
    await this.stop();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

/** Starts slapd. `-d 0` keeps it silent and in the foreground. */
const launch = (urls: string, config: string): ChildProcess =>
  spawn(SLAPD ?? '', ['-h', urls, '-f', config, '-d', '0'], { stdio: 'ignore' });

const freePort = (): Promise<number> =>
  new Promise((resolve, reject) => {
    const server = createServer();
    server.once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const address = server.address();
      const port = typeof address === 'object' && address !== null ? address.port : 0;
      server.close(() => resolve(port));
    });
  });
