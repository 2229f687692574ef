import { setTimeout as sleep } from 'node:timers/promises';
import {
  commitOf,
  commitOfLargeDelta,
  commitOfManyFiles,
  packed,
  packOf,
  pushOf,
  treeEntry,
} from '../support/packs.ts';
import { openRaw, type RawConnection } from '../support/raw-socket.ts';

/** An attacker with their own address. Their connections stay open until they leave. */
export class Stranger {
  readonly random: () => number;
  readonly world: World;
  readonly #address: string;
  readonly #connections: RawConnection[] = [];
  #hasLeft = false;

  constructor(world: World, address: string, random: () => number) {
    this.world = world;
    this.#address = address;
    this.random = random;
  }

  get connections(): number {
    return this.#connections.length;
  }

  /** Returns a random integer below `limit`. */
  upTo(limit: number): number {
    return Math.floor(this.random() * limit);
  }

  oneOf<T>(choices: readonly [T, ...T[]]): T {
    return choices[this.upTo(choices.length)] ?? choices[0];
  }

  bytes(length: number): Buffer {
    return Buffer.from(Array.from({ length }, () => this.upTo(256)));
  }

  async open(bytes: string | Buffer): Promise<RawConnection> {
    const connection = await openRaw(this.world.url, bytes, { localAddress: this.#address });
    if (this.#hasLeft) connection.socket.destroy();
    this.#connections.push(connection);
    return connection;
  }

  /** Sends a whole request. The answer does not matter here. */
  send(method: string, path: string, headers: readonly string[], body: string | Buffer = ''): Promise<RawConnection> {
    const bytes = Buffer.from(body);
    const head = [`${method} ${path} HTTP/1.1`, 'Host: hub', 'Connection: close', ...headers];
    return this.open(
      Buffer.concat([Buffer.from(`${head.join('\r\n')}\r\nContent-Length: ${bytes.length}\r\n\r\n`), bytes]),
    );
  }

  /** Sends the headers of a request that announces a body of `length` bytes, but not the body. */
  begin(path: string, headers: readonly string[], length: number): Promise<RawConnection> {
    const head = [`POST ${path} HTTP/1.1`, 'Host: hub', ...headers, `Content-Length: ${length}`];
    return this.open(`${head.join('\r\n')}\r\n\r\n`);
  }

  leave(): void {
    this.#hasLeft = true;
    for (const { socket } of this.#connections) socket.destroy();
  }
}

export interface World {
  readonly url: string;
  /** The token of an ordinary account, which owns the project. The project is public. */
  readonly token: string;
  readonly projectId: number;
  readonly projectPath: string;
}

const JSON_BODY = 'Content-Type: application/json';
const times = (count: number): number[] => Array.from({ length: count }, (_, index) => index);
const authorised = (stranger: Stranger): string[] =>
  stranger.random() < 0.5 ? [] : [`PRIVATE-TOKEN: ${stranger.world.token}`];
const asOwner = ({ world }: Stranger): string[] => [`PRIVATE-TOKEN: ${world.token}`];

/** Each attack takes a moment. Its content depends only on the stranger's random numbers. */
export const ATTACKS: Readonly<Record<string, (stranger: Stranger) => Promise<unknown>>> = {
  'random bytes': (stranger) =>
    Promise.all(times(20).map(() => stranger.open(stranger.bytes(1 + stranger.upTo(4_000))))),

  'broken requests': (stranger) => {
    const line = (): string => {
      const method = stranger.oneOf(['GET', 'POST', 'PUT', 'BREW', '', 'get', 'CONNECT', 'OPTIONS']);
      const path = stranger.oneOf([
        '//',
        '/',
        '*',
        '/%',
        '/api/v4/projects/%00',
        'http://[',
        '/api/graphql?query=%',
        '\\',
        '/..//',
      ]);
      const version = stranger.oneOf(['HTTP/1.1', 'HTTP/1.0', 'HTTP/9', '', 'HTTP/1.1\r\nHost: a\r\nHost: b']);
      const header = stranger.oneOf([
        'Content-Length: -1',
        'Content-Length: 9\r\nTransfer-Encoding: chunked',
        'Transfer-Encoding: chunked, identity',
        `X: ${'x'.repeat(stranger.upTo(40_000))}`,
        'Range: bytes=9-1',
        'Authorization: Basic ====',
        'Cookie: =;;=',
        'Expect: 100-continue',
      ]);
      return `${method} ${path} ${version}\r\n${header}\r\n\r\n`;
    };
    return Promise.all(times(30).map(() => stranger.open(line().repeat(1 + stranger.upTo(5)))));
  },

  'half-closed and reset connections': (stranger) =>
    Promise.all(
      times(20).map(async () => {
        const { socket } = await stranger.open('GET /api/v4/projects HTTP/1.1\r\nHost: hub\r\n\r\n'.repeat(20));
        const how = stranger.upTo(3);
        if (how === 0) socket.end();
        else if (how === 1) socket.resetAndDestroy();
        else socket.pause();
      }),
    ),

  'slow bodies': (stranger) =>
    Promise.all(
      times(20).map(async () => {
        const path = stranger.oneOf(['/api/v4/projects', '/api/graphql', '/oauth/token', '/users/sign_in']);
        const { socket } = await stranger.begin(path, [JSON_BODY, ...asOwner(stranger)], 100_000);
        for (let n = 0; n < 10 && !socket.destroyed; n++) {
          socket.write(' ');
          await sleep(stranger.random() * 200);
        }
      }),
    ),

  'idle fetches': (stranger) =>
    Promise.all(
      times(40).map(async () => {
        const service = stranger.oneOf(['git-upload-pack', 'git-receive-pack']);
        const type = `Content-Type: application/x-${service}-request`;
        const path = `/${stranger.world.projectPath}.git/${service}`;
        const { socket } = await stranger.begin(path, [type, ...asOwner(stranger)], 10_000);
        if (stranger.random() < 0.5) socket.write('0032want ');
      }),
    ),

  'upgrade floods': (stranger) =>
    Promise.all(
      times(50).map(() => {
        const path = stranger.oneOf(['/', '//', '/api/graphql', '/api/graphql/', '/x?', '/api/v4/projects']);
        const to = stranger.oneOf(['websocket', 'h2c', 'websocket, x', '']);
        return stranger.open(upgradeOf(path, to));
      }),
    ),

  'broken frames': (stranger) =>
    Promise.all(
      times(10).map(async () => {
        const { socket, text } = await stranger.open(upgradeOf('/api/graphql', 'websocket'));
        for (let n = 0; n < 50 && !text().includes('\r\n\r\n') && !socket.destroyed; n++) await sleep(10);
        const init = frame(stranger, '{"type":"connection_init"}');
        const ask = (query: string) =>
          frame(stranger, JSON.stringify({ id: String(stranger.random()), type: 'subscribe', payload: { query } }));
        const bytes = stranger.oneOf([
          () => stranger.bytes(200),
          () => frame(stranger, 'x'.repeat(70_000)),
          () => frame(stranger, '['.repeat(5_000)),
          () => Buffer.from([0x81, 0xff, 0x7f, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
          () => Buffer.concat([init, ...times(120).map(() => ask('subscription { nothing }'))]),
          () => Buffer.concat([init, ...times(120).map(() => ask('{ currentUser { id } }'))]),
          () => Buffer.concat([init, init]),
        ])();
        if (!socket.destroyed) socket.write(bytes);
      }),
    ),

  'GraphQL documents': (stranger) =>
    Promise.all(
      times(12).map(() => {
        const query = stranger.oneOf([soup, nestedFragments, deepQuery, repeatedFields, unknownFields])(stranger);
        return stranger.send('POST', '/api/graphql', [JSON_BODY, ...authorised(stranger)], JSON.stringify({ query }));
      }),
    ),

  'wide GraphQL answers': (stranger) =>
    Promise.all(
      times(4).map(() => {
        const fields =
          'id iid title description descriptionHtml state createdAt updatedAt webUrl author { id username name webUrl }';
        const aliased = times(30).map((n) => `t${n}: title d${n}: description`);
        const page = `issues(first: 100) { nodes { ${fields} ${aliased.slice(0, stranger.upTo(30)).join(' ')} } }`;
        const query = `{ project(fullPath: "${stranger.world.projectPath}") { ${page} } }`;
        return stranger.send('POST', '/api/graphql', [JSON_BODY, ...authorised(stranger)], JSON.stringify({ query }));
      }),
    ),

  'JSON of many values': (stranger) =>
    Promise.all(
      times(6).map(() => {
        const path = stranger.oneOf([
          '/api/v4/projects',
          '/api/graphql',
          `/api/v4/projects/${stranger.world.projectId}/issues`,
        ]);
        const count = 1 + stranger.upTo(100_000);
        const body = stranger.oneOf([
          () => `{${times(count).map((n) => `"k${n}":${n}`)}}`,
          () => '['.repeat(count),
          () => `{"title":"x","description":"${'x'.repeat(count * 10)}"}`,
          () => `[${times(count).map(() => '{}')}]`,
          () => stranger.bytes(10_000).toString('latin1'),
        ])();
        return stranger.send('POST', path, [JSON_BODY, ...authorised(stranger)], body);
      }),
    ),

  'odd parameters': (stranger) =>
    Promise.all(
      times(40).map(() => {
        const odd = () =>
          stranger.oneOf([
            '-1',
            '%00',
            '9'.repeat(40),
            'NaN',
            '%ff',
            "'",
            'a'.repeat(3_000),
            '[]',
            '%F0%9F%92%A5',
            '..%2f',
          ]);
        const path = stranger.oneOf([
          `/api/v4/projects/${odd()}`,
          `/api/v4/projects?per_page=${odd()}&page=${odd()}`,
          `/api/v4/projects?id_after=${odd()}&order_by=${odd()}`,
          `/api/v4/users?search=${odd()}`,
          `/api/v4/projects/${stranger.world.projectId}/issues?labels[]=${odd()}&cursor=${odd()}`,
          `/api/v4/projects/${stranger.world.projectId}/repository/tree?ref=${odd()}&path=${odd()}`,
          `/${stranger.world.projectPath}.git/info/refs?service=${odd()}`,
          `/users/${odd()}`,
        ]);
        return stranger.send('GET', path, authorised(stranger));
      }),
    ),

  packs: (stranger) =>
    Promise.all(
      times(4).map((n) => {
        const { oid, pack } = stranger.oneOf([
          () => commitOfLargeDelta(128 + 64 * stranger.upTo(8)),
          () => commitOfManyFiles(4 + stranger.upTo(4)),
          () => ({ oid: '1'.repeat(40), pack: stranger.bytes(1 + stranger.upTo(5_000)) }),
          () => brokenPack(stranger),
          () => disorder(),
        ])();
        const path = `/${stranger.world.projectPath}.git/git-receive-pack`;
        const headers = ['Content-Type: application/x-git-receive-pack-request', ...authorised(stranger)];
        return stranger.send('POST', path, headers, pushOf(`refs/heads/s${stranger.upTo(1_000)}-${n}`, oid, pack));
      }),
    ),

  'dear reads': (stranger) =>
    Promise.all(
      times(20).map(async () => {
        const base = `/api/v4/projects/${stranger.world.projectId}/repository`;
        const path = stranger.oneOf([
          `${base}/commits/many/diff?per_page=100`,
          `${base}/compare?from=main&to=many`,
          `${base}/tree?ref=many&recursive=true&per_page=100`,
          `${base}/archive.tar.gz?sha=many`,
          `${base}/files/large/raw?ref=large`,
          `${base}/files/large?ref=large`,
          `${base}/files/large/blame?ref=large`,
          `/api/v4/projects/${stranger.world.projectId}/issues?per_page=100`,
        ]);
        const { socket } = await stranger.send('GET', path, authorised(stranger));
        // Half of them do not read the answer.
        if (stranger.random() < 0.5) socket.pause();
      }),
    ),
};

const upgradeOf = (path: string, to: string): string =>
  `GET ${path} HTTP/1.1\r\nHost: hub\r\nConnection: Upgrade\r\nUpgrade: ${to}\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: graphql-transport-ws\r\n\r\n`;

/** Returns a masked text frame (RFC 6455 §5.2). */
const frame = (stranger: Stranger, text: string): Buffer => {
  const payload = Buffer.from(text);
  const mask = stranger.bytes(4);
  const length =
    payload.length < 126
      ? Buffer.from([0x80 | payload.length])
      : Buffer.concat([Buffer.from([0xff, 0, 0, 0, 0]), u32(payload.length)]);
  const masked = payload.map((byte, index) => byte ^ (mask[index % 4] ?? 0));
  return Buffer.concat([Buffer.from([0x81]), length, mask, masked]);
};

const u32 = (value: number): Buffer => {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32BE(value);
  return bytes;
};

const WORDS = [
  '{',
  '}',
  '(',
  ')',
  '...',
  'on',
  'query',
  'fragment',
  'F',
  'project',
  ':',
  '$x',
  '!',
  '"',
  '@skip',
  '1',
  '[',
  'nodes',
  '#\n',
] as const;
const soup = (stranger: Stranger): string =>
  times(stranger.upTo(3_000))
    .map(() => stranger.oneOf(WORDS))
    .join(' ');

const nestedFragments = (stranger: Stranger): string => {
  const levels = 10 + stranger.upTo(30);
  const fragments = times(levels).map((n) => `fragment F${n} on Query { ...F${n + 1} ...F${n + 1} }`);
  return `{ ...F0 } ${fragments.join(' ')} fragment F${levels} on Query { currentUser { id } }`;
};

const deepQuery = (stranger: Stranger): string => {
  const levels = 1 + stranger.upTo(500);
  return `{ projects { nodes { ${'group { projects { nodes { '.repeat(levels)}id${'} } }'.repeat(levels)} } } }`;
};

const repeatedFields = (stranger: Stranger): string =>
  `{ ${times(stranger.upTo(2_000))
    .map((n) => `${stranger.random() < 0.5 ? `a${n}: ` : ''}projects(first: 100) { nodes { id } }`)
    .join(' ')} }`;

const unknownFields = (stranger: Stranger): string =>
  `{ ${times(stranger.upTo(1_000))
    .map((n) => `unknown${n}`)
    .join(' ')} }`;

const brokenPack = (stranger: Stranger): { readonly oid: string; readonly pack: Buffer } => {
  const { oid, pack } = commitOfManyFiles(3);
  for (let n = 0; n < 5; n++) pack[12 + stranger.upTo(pack.length - 12)] = stranger.upTo(256);
  return { oid, pack: pack.subarray(0, 12 + stranger.upTo(pack.length)) };
};

/** Returns a commit with a missing parent, and a tree whose entries are not sorted. */
const disorder = (): { readonly oid: string; readonly pack: Buffer } => {
  const blob = packed('blob', Buffer.from('x'));
  const tree = packed(
    'tree',
    Buffer.concat([treeEntry('100644', 'z', blob.oid), treeEntry('100644', '../a', blob.oid)]),
  );
  const commit = commitOf(tree.oid, '2'.repeat(40));
  return { oid: commit.oid, pack: packOf([blob, tree, commit]) };
};
