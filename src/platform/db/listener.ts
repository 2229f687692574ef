import pg from 'pg';
import type { Logger } from '../log.ts';
import { keepAlive } from './pool.ts';

const FIRST_RETRY_MS = 50;
const LAST_RETRY_MS = 5_000;
/** A dead peer sends nothing, so a regular query detects it. */
const PING_INTERVAL_MS = 10_000;
const PING_TIMEOUT_MS = 5_000;

/**
 * One connection that LISTENs for the whole process. Notifications are lost while it is down. After a reconnect it
 * calls every handler once with an empty payload, so that they check for themselves, and then the reconnect handlers.
 * Readers that must not miss anything still need to poll. Handlers must not throw; the listener logs their errors.
 */
export class Listener {
  readonly #connectionString: string;
  readonly #log: Logger;
  readonly #handlers = new Map<string, Set<(payload: string) => void>>();
  readonly #reconnectHandlers = new Set<() => void>();
  #client: pg.Client | null = null;
  #commands: Promise<void> = Promise.resolve();
  #retryMs = FIRST_RETRY_MS;
  #timer: NodeJS.Timeout | null = null;
  #closed = false;

  constructor(connectionString: string, log: Logger) {
    this.#connectionString = connectionString;
    this.#log = log;
  }

  /**
   * Calls `handler` for each notification on the channel. May be called before or after `start()`. Returns a function
   * that unsubscribes.
   */
  on(channel: string, handler: (payload: string) => void): () => void {
    let handlers = this.#handlers.get(channel);
    if (!handlers) {
      handlers = new Set();
      this.#handlers.set(channel, handlers);
      this.#command('LISTEN', channel);
    }
    handlers.add(handler);
    return () => {
      if (!handlers.delete(handler) || handlers.size > 0) return;
      this.#handlers.delete(channel);
      this.#command('UNLISTEN', channel);
    };
  }

  /**
   * Calls `handler` after each reconnect, when all channels are listened to again. Returns a function that
   * unsubscribes.
   */
  onReconnect(handler: () => void): () => void {
    this.#reconnectHandlers.add(handler);
    return () => this.#reconnectHandlers.delete(handler);
  }

  /**
   * Resolves when every channel is listened to. Reconnects by itself after later losses.
   *
   * @throws if the database cannot be reached now
   */
  async start(): Promise<void> {
    await this.#connect();
  }

  async close(): Promise<void> {
    this.#closed = true;
    if (this.#timer) clearTimeout(this.#timer);
    const client = this.#client;
    this.#client = null;
    client?.removeAllListeners('notification');
    await client?.end().catch(() => {});
  }

  async #connect(): Promise<void> {
    const client = new pg.Client({
      connectionString: this.#connectionString,
      application_name: 'millrace listener',
      ...keepAlive,
      connectionTimeoutMillis: 5_000,
      query_timeout: PING_TIMEOUT_MS,
    });
    client.on('notification', ({ channel, payload }) => this.#deliver(channel, payload ?? ''));
    client.on('error', (error) => this.#lost(client, error));
    client.on('end', () => this.#lost(client, null));
    try {
      await client.connect();
      const channels = [...this.#handlers.keys()];
      this.#client = client;
      if (channels.length > 0)
        await client.query(channels.map((channel) => `LISTEN ${client.escapeIdentifier(channel)}`).join(';'));
    } catch (error) {
      if (this.#client === client) this.#client = null;
      client.end().catch(() => {});
      throw error;
    }
    if (this.#closed) {
      await client.end().catch(() => {});
      return;
    }
    this.#retryMs = FIRST_RETRY_MS;
    this.#timer = setTimeout(() => this.#ping(client), PING_INTERVAL_MS).unref();
  }

  #lost(client: pg.Client, error: Error | null): void {
    if (this.#client !== client || this.#closed) return;
    this.#client = null;
    this.#log.warn({ err: error }, 'lost the database connection for notifications');
    client.end().catch(() => {});
    this.#retry();
  }

  #retry(): void {
    if (this.#timer) clearTimeout(this.#timer);
    if (this.#closed) return;
    // Random delays keep many processes from reconnecting at the same moment.
    const delayMs = this.#retryMs * (0.5 + Math.random());
    this.#retryMs = Math.min(this.#retryMs * 2, LAST_RETRY_MS);
    this.#timer = setTimeout(() => {
      this.#connect().then(
        () => this.#wakeAll(),
        (error: unknown) => {
          this.#log.warn({ err: error }, 'could not reconnect to the database for notifications');
          this.#retry();
        },
      );
    }, delayMs);
  }

  #wakeAll(): void {
    if (this.#closed || !this.#client) return;
    this.#log.info('reconnected to the database for notifications');
    for (const channel of this.#handlers.keys()) this.#deliver(channel, '');
    for (const handler of this.#reconnectHandlers) this.#call(handler);
  }

  #ping(client: pg.Client): void {
    client.query('SELECT 1').then(
      () => {
        if (this.#client === client) this.#timer = setTimeout(() => this.#ping(client), PING_INTERVAL_MS).unref();
      },
      (error: Error) => this.#lost(client, error),
    );
  }

  #command(verb: 'LISTEN' | 'UNLISTEN', channel: string): void {
    const client = this.#client;
    // Without a connection there is nothing to do: the next one listens to all channels.
    if (!client) return;
    // One after the other, because pg deprecates sending a command while others wait.
    this.#commands = this.#commands
      .then(async () => {
        if (this.#client === client) await client.query(`${verb} ${client.escapeIdentifier(channel)}`);
      })
      .catch((error: Error) => this.#lost(client, error));
  }

  #deliver(channel: string, payload: string): void {
    for (const handler of this.#handlers.get(channel) ?? []) this.#call(() => handler(payload));
  }

  #call(handler: () => void): void {
    try {
      handler();
    } catch (error) {
      this.#log.error({ err: error }, 'a notification handler failed');
    }
  }
}
