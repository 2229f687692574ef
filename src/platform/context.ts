import type { Pool } from 'pg';
import type { Caches } from './cache.ts';
import type { Answers } from './caller/answers.ts';
import type { CallerCheck } from './caller/caller-check.ts';
import type { Clock } from './clock.ts';
import type { Config } from './config/config.ts';
import type { Database } from './db/pool.ts';
import type { EventDefinition, NewEvent } from './events.ts';
import type { Git } from './git/git.ts';
import type { HttpClient } from './http-client/http-client.ts';
import type { EnqueueOptions, JobDefinition } from './jobs.ts';
import type { Logger } from './log.ts';
import type { Storage } from './storage/storage.ts';

/** The acting user and their credential. Determined once per request, in rest/auth.ts. */
export interface Actor {
  /** Null for anonymous callers and for the hub itself. */
  readonly userId: number | null;
  readonly username: string | null;
  readonly isAdmin: boolean;
  /**
   * The user is an administrator, but acts as an ordinary user because admin mode is on and the credential has not
   * entered it. `isAdmin` is then false.
   */
  readonly needsAdminMode?: boolean;
  /**
   * The version of the terms that the user of a session has accepted, null if none. Absent for other callers: tokens and
   * passwords are refused before they become an actor, and work of the hub is not asked.
   */
  readonly acceptedTerms?: string | null;
  /** External users see internal projects and groups only as members. */
  readonly isExternal: boolean;
  /** Auditors read all projects and groups as if these were public. Tokens of jobs never have this right. */
  readonly isAuditor?: boolean;
  /** The hub itself, in a job or at start. It has every ability. */
  readonly isSystem: boolean;
  /** Null means unrestricted (password, session, the hub itself). */
  readonly scopes: ReadonlySet<string> | null;
  /** The address that the request came from. Absent for the hub itself. */
  readonly address?: string | null;
  /** Top-level groups whose address restrictions exclude `address`. Administrators are never excluded. */
  readonly closedGroups?: readonly number[];
  /**
   * MD5 digests of the classification labels whose projects are open to the actor. Absent if no external service decides
   * about projects. Administrators are never excluded.
   */
  readonly openLabels?: readonly string[] | undefined;
  /** Digests of the labels that the service has not answered about. `openLabels` lacks these. */
  readonly unansweredLabels?: readonly string[] | undefined;
  /** Set if the request carries a job's token. Other projects are open to the job only if they admit its project. */
  readonly job?: ActorJob;
  /** The credential of the request. Null for a password, a job of the hub, or an anonymous request. */
  readonly credential: ActorCredential | null;
}

/** A CI job that acts with its token. */
export interface ActorJob {
  readonly id: number;
  readonly projectId: number;
}

/**
 * A row that must stay valid for the actor to continue: a personal access token, an OAuth access token, a session, or a
 * job that has a token.
 */
export interface ActorCredential {
  readonly kind: 'token' | 'oauth_token' | 'session' | 'job_token';
  readonly id: number;
  /**
   * The user who holds it, even while it acts as another user. For an impersonation token, the administrator who
   * created it.
   */
  readonly holderId: number;
  /** The OAuth authorization that it belongs to or was created through. Null if no application was involved. */
  readonly originId: string | null;
}

/** The origin of a request. Both are null for jobs. */
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

/** The shared services of a process, for all requests and jobs. */
export interface Services {
  readonly config: Config;
  readonly pool: Pool;
  readonly db: Database;
  readonly storage: Storage;
  readonly git: Git;
  readonly caches: Caches;
  readonly http: HttpClient;
  readonly answers: Answers;
  readonly clock: Clock;
  readonly log: Logger;
  /** The URL at which users reach the hub: the configured external URL, or the listening address. No trailing slash. */
  readonly urls: { readonly base: string };
  /** Encrypts values that must be read back (hook secrets): MILLRACE_SECRET_KEY or the key in the data directory. */
  readonly secretKey: Buffer;
  /** Identifies this process in leases and heartbeats. */
  readonly processId: string;
}

/** Everything that a domain function needs to know about its request or job. */
export interface Context {
  readonly actor: Actor;
  readonly db: Database;
  readonly services: Services;
  readonly clock: Clock;
  readonly log: Logger;
  readonly signal: AbortSignal;
  readonly requestId: string;
  readonly client: Client;
  /**
   * The `X-Gitlab-Event-UUID` of the request, if this hub issued it. Events caused by the request continue that chain.
   */
  readonly chainId: string | null;
  /** Set while the actor is an assumed caller that must still be confirmed. */
  readonly callerCheck?: CallerCheck | undefined;
  /**
   * Runs `run` in a transaction: its changes, events and jobs commit together or not at all. Inside a transaction it
   * joins the outer one.
   */
  transaction<T>(run: (tx: Tx) => Promise<T>): Promise<T>;
}

/** A context inside a transaction. Events can only be emitted and jobs only enqueued here. */
export interface Tx extends Context {
  /**
   * Returns the same transaction with another actor, whom its events name. A copy `{ ...tx, actor }` would emit in the
   * name of the first actor.
   */
  as(actor: Actor): Tx;
  /** Records the event. Followers see it when the transaction commits. */
  emit<P>(definition: EventDefinition<P>, event: NewEvent<P>): void;
  /** Adds the job. Workers see it when the transaction commits. */
  enqueue<I>(job: JobDefinition<I>, input: I, options?: EnqueueOptions): void;
  /** Calls `run` after the commit. A crash can prevent that, so nothing may depend on it. */
  afterCommit(run: () => void): void;
  /** Calls `run` if the transaction was rolled back, or may have been: the connection may be lost at the commit. */
  afterRollback(run: () => void): void;
}

/**
 * Returns the transaction in the name of a user, with the rights that it has. For follow-ups of what the user did, which
 * happen whatever they may do by now. Null if nobody did it.
 */
export const inNameOf = (tx: Tx, userId: number | null): Tx => tx.as({ ...tx.actor, userId });
