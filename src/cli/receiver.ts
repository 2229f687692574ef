import { createHmac, timingSafeEqual } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

export interface ReceivedHook {
  readonly headers: IncomingHttpHeaders;
  readonly body: unknown;
  /** Why the delivery is not authentic. Null when token and signature are correct. */
  readonly problem: string | null;
}

const MAX_BODY_BYTES = 25 * 1024 * 1024;
const MAX_AGE_SECONDS = 300;

/** A webhook receiver for the demo: a server on a loopback port that verifies every delivery. */
export class Receiver {
  readonly hooks: ReceivedHook[] = [];
  readonly #server: Server;
  #secrets: { token: string; signingToken: string } = { token: '', signingToken: '' };

  constructor() {
    this.#server = createServer((request, response) => {
      const chunks: Buffer[] = [];
      let size = 0;
      request.on('data', (chunk: Buffer) => {
        size += chunk.length;
        if (size > MAX_BODY_BYTES) request.destroy();
        else chunks.push(chunk);
      });
      request.on('end', () => {
        const body = Buffer.concat(chunks);
        const problem = verify(request.headers, body, this.#secrets);
        this.hooks.push({ headers: request.headers, body: JSON.parse(body.toString('utf8')), problem });
        response.writeHead(problem === null ? 200 : 400).end();
      });
    });
  }

  /** Starts to listen. Returns the receiver's URL. */
  async start(): Promise<string> {
    await new Promise<void>((resolve, reject) => {
      this.#server.once('error', reject).listen(0, '127.0.0.1', resolve);
    });
    const address: AddressInfo | string | null = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the receiver has no address');
    return `http://127.0.0.1:${address.port}/hooks`;
  }

  /** Sets the secrets that deliveries are verified against. */
  expect(secrets: { token: string; signingToken: string }): void {
    this.#secrets = secrets;
  }

  stop(): void {
    this.#server.close();
    this.#server.closeAllConnections();
  }
}

/** Verifies the secret token and the Standard Webhooks signature. Returns the problem, or null. */
const verify = (
  headers: IncomingHttpHeaders,
  body: Buffer,
  { token, signingToken }: { readonly token: string; readonly signingToken: string },
): string | null => {
  if (headers['x-gitlab-token'] !== token) return 'the secret token differs';
  const id = headers['webhook-id'];
  const timestamp = headers['webhook-timestamp'];
  const signature = headers['webhook-signature'];
  if (typeof id !== 'string' || typeof timestamp !== 'string' || typeof signature !== 'string')
    return 'the signature is missing';
  if (Math.abs(Date.now() / 1_000 - Number(timestamp)) > MAX_AGE_SECONDS) return 'the timestamp is too far off';
  const key = Buffer.from(signingToken.replace(/^whsec_/, ''), 'base64');
  const wanted = createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest();
  const valid = signature.split(' ').some((candidate) => {
    const [version, value = ''] = candidate.split(',');
    const given = Buffer.from(value, 'base64');
    return version === 'v1' && given.length === wanted.length && timingSafeEqual(given, wanted);
  });
  return valid ? null : 'the signature does not match';
};
