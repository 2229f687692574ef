import type { Pool } from 'pg';
import type { CallerCheck } from './caller-check.ts';
import type { Clock } from './clock.ts';
import type { Config } from './config.ts';
import type { Database } from './db/pool.ts';
import type { EventDefinition, NewEvent } from './events.ts';
import type { Git } from './git/git.ts';
import type { HttpClient } from './http-client/http-client.ts';
import type { EnqueueOptions, JobDefinition } from './jobs.ts';
import type { Logger } from './log.ts';
import type { Storage } from './storage/storage.ts';

/** Who acts, and with what credential. Decided once per request, in rest/auth.ts. */
export interface Actor {
  /** Null for anonymous callers and for the hub itself. */
  readonly userId: number | null;
  readonly username: string | null;
  readonly isAdmin: boolean;
  /** External users see internal things only where they are members. */
  readonly isExternal: boolean;
  /** The hub itself, in a job or at start: every ability. */
  readonly isSystem: boolean;
  /** Null means unrestricted (password, session, the hub itself). */
  readonly scopes: ReadonlySet<string> | null;
  /** The address that the request came from; absent for the hub itself. */
  readonly address?: string | null;
  /** Top-level groups that keep out `address`; administrators are kept out of none. */
  readonly closedGroups?: readonly number[];
  /** What the request came with; null for a password, a job of the hub, or nothing. */
  readonly credential: ActorCredential | null;
}

/** A row that has to stay valid for the actor to go on: a personal access token, an OAuth access token, or a session. */
export interface ActorCredential {
  readonly kind: 'token' | 'oauth_token' | 'session';
  readonly id: number;
  /** Who holds it: its user, also while it acts as somebody else; of an impersonation token the administrator who made it. */
  readonly holderId: number;
  /** The OAuth authorization that it belongs to or was made through; null where no application had a hand in it. */
  readonly originId: string | null;
}

/** Where a request came from; both null for jobs. */
export interface Client {
  readonly ip: string | null;
  readonly userAgent: string | null;
}

export const noClient: Client = { ip: null, userAgent: null };

export const anonymous: Actor = {
  userId: null,
  username: null,
  isAdmin: false,
  isExternal: false,
  isSystem: false,
  scopes: null,
  credential: null,
};

export const systemActor: Actor = { ...anonymous, isAdmin: true, isSystem: true };

/** What the process holds once, for all requests and jobs. */
export interface Services {
  readonly config: Config;
  readonly pool: Pool;
  readonly db: Database;
  readonly storage: Storage;
  readonly git: Git;
  readonly http: HttpClient;
  readonly clock: Clock;
  readonly log: Logger;
  /** Where users reach the hub: the configured external URL, or the address it listens on. No slash at the end. */
  readonly urls: { readonly base: string };
  /** Seals what must be read back (hook secrets): MILLRACE_SECRET_KEY or the one kept in the data directory. */
  readonly secretKey: Buffer;
  /** Identifies this process in leases and heartbeats. */
  readonly processId: string;
}

/** Everything a domain function needs to know of the request or job it serves. */
export interface Context {
  readonly actor: Actor;
  readonly db: Database;
  readonly services: Services;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly requestId: string;
  readonly client: Client;
  /** The `X-Gitlab-Event-UUID` of the request where this hub issued it: events caused by the request continue that chain. */
  readonly chainId: string | null;
  /** Where the actor is still to be confirmed. */
  readonly callerCheck?: CallerCheck | undefined;
  /** Runs `run` in a transaction: its changes, events and jobs commit together or not at all. Inside a transaction it joins it. */
  transaction<T>(run: (tx: Tx) => Promise<T>): Promise<T>;
}

/** A context inside a transaction. Only here can events be emitted and jobs enqueued. */
export interface Tx extends Context {
  /** Records the event; it becomes visible to followers when the transaction commits. */
  emit<P>(definition: EventDefinition<P>, event: NewEvent<P>): void;
  /** Adds the job; workers see it when the transaction commits. */
  enqueue<I>(job: JobDefinition<I>, input: I, options?: EnqueueOptions): void;
}
