import type { Readable } from 'node:stream';
import type { CallOptions } from './call-options.ts';
import type { NewObjects } from './objects.ts';

/** The protocol of clones and pushes over HTTP. Part of `Git` (types.ts). */
export interface GitHttp {
  /** Returns the body of `GET /info/refs?service=...` (`application/x-<service>-advertisement`). */
  advertise(path: string, service: Service, options?: ProtocolOptions & CallOptions): Promise<Readable>;
  /**
   * Serves `POST /<service>`. `body` is already decompressed (`decodedBody`). Resolves when the commands of a push are
   * read and judged. Rejects with `invalid` for a malformed request, before anything has been sent.
   */
  serve(path: string, service: Service, body: Readable, options?: ServeOptions): Promise<Served>;
}

export type Service = 'git-upload-pack' | 'git-receive-pack';

export interface ProtocolOptions {
  /** The raw `Git-Protocol` header. Unknown versions are ignored. */
  readonly gitProtocol?: string | undefined;
}

/** A ref update requested by a push. Null on either side means that the ref does not exist. */
export interface RefUpdate {
  readonly ref: string;
  readonly oldOid: string | null;
  readonly newOid: string | null;
}

export interface RefRefusal {
  readonly ref: string;
  /** One line, shown to the user who pushed. */
  readonly reason: string;
}

export interface PushVerdict {
  /** A single refusal refuses the whole push. */
  readonly refused?: readonly RefRefusal[] | undefined;
  /** Full refs that may only be fast-forwarded. If the received objects show otherwise, the whole push is refused. */
  readonly fastForwardOnly?: readonly string[] | undefined;
  /** Lines for the terminal of the user who pushed, whatever the outcome. */
  readonly messages?: readonly string[] | undefined;
}

export interface ServeOptions extends ProtocolOptions {
  /** Aborted when the client leaves. A push that has arrived completely is still executed. */
  readonly signal?: AbortSignal | undefined;
  /** Called once per push, before any object is read. Nothing moves unless it accepts. */
  readonly onRefUpdates?:
    | ((updates: readonly RefUpdate[], pushOptions: readonly string[]) => Promise<PushVerdict>)
    | undefined;
  /**
   * Called once the objects of a push have arrived and are valid, right before refs move. A refusal refuses the whole
   * push. If the hub dies before the answer, nothing moves. After the answer, refs move even if the hub dies.
   */
  readonly onReceived?: ((objects: NewObjects) => Promise<readonly RefRefusal[]>) | undefined;
  /** The maximum size of the pack of a push. */
  readonly maxInputBytes?: number | undefined;
  /** Stops if no byte moves in either direction for this long. */
  readonly idleTimeoutMs?: number | undefined;
}

export interface ServeResult {
  /** The refs that actually moved, in the order of the push. Always empty for a fetch. */
  readonly updates: readonly RefUpdate[];
  readonly refused: readonly RefRefusal[];
  /** True for a fetch that sent objects, not only the names of refs. */
  readonly sentObjects?: boolean;
}

export interface Served {
  /** The body of the response (`application/x-<service>-result`, status 200). Must be consumed. */
  readonly stream: Readable;
  /** Settles when git has ended, even if the client is gone. Record the push from here. */
  readonly done: Promise<ServeResult>;
  /** True for a push whose client shows messages. */
  readonly hasSideBand?: boolean;
}
