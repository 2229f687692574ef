import { setTimeout as sleep } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import type { JobOrder, Protocol, Reply } from './protocol.ts';

const MAX_PART_BYTES = 1024 * 1024;
const MAX_TRIES = 10;

/** The states in which a runner stops its script. */
export type Stop = 'canceling' | 'aborted' | null;

/** Sends the log of a job: parts while it runs, and the rest with the checksum at its end. */
export class JobLog {
  readonly #protocol: Protocol;
  readonly #job: JobOrder;
  readonly #secrets: readonly string[];
  readonly #onStop: (stop: Stop) => void;
  #bytes = Buffer.alloc(0);
  #sent = 0;
  #sending: Promise<void> = Promise.resolve();
  #stop: Stop = null;

  constructor(protocol: Protocol, job: JobOrder, onStop: (stop: Stop) => void) {
    this.#protocol = protocol;
    this.#job = job;
    this.#onStop = onStop;
    this.#secrets = job.variables.filter(({ masked }) => masked).map(({ value }) => value);
  }

  get stop(): Stop {
    return this.#stop;
  }

  write(text: string): void {
    let masked = text;
    for (const secret of this.#secrets) if (secret !== '') masked = masked.replaceAll(secret, '[MASKED]');
    this.#bytes = Buffer.concat([this.#bytes, Buffer.from(masked)]);
  }

  /** Sends what is not sent yet, one part after the other. */
  flush(): Promise<void> {
    this.#sending = this.#sending.then(() => this.#send());
    return this.#sending;
  }

  async #send(): Promise<void> {
    for (let tries = 0; this.#sent < this.#bytes.length && this.#stop !== 'aborted' && tries < MAX_TRIES; ) {
      const start = this.#sent;
      const part = Uint8Array.from(this.#bytes.subarray(start, start + MAX_PART_BYTES));
      const reply = await this.#protocol.patch(this.#job, start, part);
      this.#heed(reply);
      if (reply.status === 202) this.#sent = start + part.length;
      else if (reply.status === 416) {
        // The hub says where to go on. A missing range means from the start.
        this.#sent = Number(/^0-(\d+)$/.exec(reply.headers.get('range') ?? '')?.[1] ?? 0);
        tries += 1;
      } else if (reply.status === 403 || reply.status === 404) this.#end('aborted');
      else tries += 1;
    }
  }

  /** Tells the hub that the job runs, so that silence is not taken for death. */
  async keepAlive(): Promise<void> {
    this.#heed(await this.#protocol.update(this.#job, { state: 'running' }));
  }

  /** Sends the rest and reports the end, until the hub has the whole log. Returns the last answer. */
  async finish(body: Readonly<Record<string, unknown>>): Promise<Reply> {
    await this.flush();
    for (let tries = 1; ; tries++) {
      const checksum = `crc32:${crc32(this.#bytes).toString(16).padStart(8, '0')}`;
      const output = { checksum, bytesize: this.#bytes.length };
      const reply = await this.#protocol.update(this.#job, { ...body, output, checksum });
      if (tries >= MAX_TRIES || (reply.status !== 202 && reply.status !== 412)) return reply;
      if (reply.status === 202) {
        await sleep(Number(reply.headers.get('x-gitlab-trace-update-interval') ?? 1) * 1_000);
      } else {
        this.#sent = 0;
        await this.flush();
      }
    }
  }

  /** The job's status counts before the status of the answer. */
  #heed(reply: Reply): void {
    const status = reply.headers.get('job-status');
    if (status === 'canceled' || status === 'failed' || reply.status === 403) this.#end('aborted');
    else if (status === 'canceling') this.#end('canceling');
  }

  #end(stop: Exclude<Stop, null>): void {
    if (this.#stop === 'aborted' || this.#stop === stop) return;
    this.#stop = stop;
    this.#onStop(stop);
  }
}
