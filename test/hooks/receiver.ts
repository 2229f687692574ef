import { createHmac } from 'node:crypto';
import { createServer, type IncomingHttpHeaders, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { setTimeout as sleep } from 'node:timers/promises';

export interface Received {
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly raw: string;
  // biome-ignore lint/suspicious/noExplicitAny: bodies have any shape, and a wrong one fails the test.
  readonly body: any;
}

/** How the receiver answers: a status, or a function that writes the response. */
export type Answering = number | ((response: ServerResponse, received: Received) => void);

/** Plays the customer's endpoint. It keeps the requests that it received, and answers as configured. */
export class Receiver implements AsyncDisposable {
  readonly received: Received[] = [];
  answer: Answering = 200;
  readonly #server: Server;

  constructor() {
    this.#server = createServer((request, response) => {
      let raw = '';
      request.setEncoding('utf8').on('data', (chunk: string) => {
        raw += chunk;
      });
      request.on('end', () => {
        const received = { path: request.url ?? '', headers: request.headers, raw, body: parse(raw) };
        this.received.push(received);
        if (typeof this.answer === 'number') response.writeHead(this.answer).end('ok');
        else this.answer(response, received);
      });
    });
  }

  static async start(): Promise<Receiver> {
    const receiver = new Receiver();
    await new Promise<void>((resolve, reject) => {
      receiver.#server.once('error', reject).listen(0, '127.0.0.1', resolve);
    });
    return receiver;
  }

  get url(): string {
    const address: AddressInfo | string | null = this.#server.address();
    if (address === null || typeof address === 'string') throw new Error('the receiver has no address');
    return `http://127.0.0.1:${address.port}/hook`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#server.closeAllConnections();
    await new Promise((resolve) => this.#server.close(resolve));
    await sleep(0);
  }
}

const parse = (raw: string): unknown => {
  try {
    return JSON.parse(raw);
  } catch {
    return null;
  }
};

/** Verifies Standard Webhooks by its specification, independently of the hub. Returns the secrets that signed. */
export const signersOf = ({ headers, raw }: Received, secrets: readonly string[]): string[] => {
  const id = String(headers['webhook-id']);
  const timestamp = String(headers['webhook-timestamp']);
  const given = String(headers['webhook-signature']).split(' ');
  if (!/^\d+$/.test(timestamp) || Math.abs(Date.now() / 1_000 - Number(timestamp)) > 300) return [];
  return secrets.filter((secret) => {
    const key = Buffer.from(secret.slice('whsec_'.length), 'base64');
    const wanted = `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.${raw}`, 'utf8').digest('base64')}`;
    return given.includes(wanted);
  });
};
