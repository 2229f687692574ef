import type { Level } from './model.ts';

/** A stack frame. Stacks list the caller first and the crash last. */
export interface NormalizedFrame {
  readonly function: string | null;
  readonly raw_function: string | null;
  readonly module: string | null;
  readonly package: string | null;
  readonly filename: string | null;
  readonly abs_path: string | null;
  readonly lineno: number | null;
  readonly colno: number | null;
  readonly pre_context: readonly string[];
  readonly context_line: string | null;
  readonly post_context: readonly string[];
  /** Whether it is the application's own code. Null if the SDK does not know. */
  readonly in_app: boolean | null;
  readonly vars: Readonly<Record<string, unknown>> | null;
  readonly platform: string | null;
}

export interface NormalizedException {
  readonly type: string | null;
  readonly value: string | null;
  readonly module: string | null;
  readonly thread_id: string | null;
  readonly mechanism: NormalizedMechanism | null;
  readonly frames: readonly NormalizedFrame[];
}

export interface NormalizedMechanism {
  readonly type: string | null;
  readonly handled: boolean | null;
  /** The SDK made the exception up, for example for a signal. Its type says nothing. */
  readonly synthetic: boolean;
  readonly exception_id: number | null;
  readonly parent_id: number | null;
  readonly is_exception_group: boolean;
}

export interface NormalizedBreadcrumb {
  readonly timestamp: string | null;
  readonly type: string | null;
  readonly category: string | null;
  readonly level: string | null;
  readonly message: string | null;
  readonly data: Readonly<Record<string, unknown>> | null;
}

export interface NormalizedRequest {
  readonly url: string | null;
  readonly method: string | null;
  readonly query_string: string | null;
  readonly cookies: Readonly<Record<string, unknown>> | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, unknown>> | null;
  readonly data: unknown;
}

export interface NormalizedUser {
  readonly id: string | null;
  readonly username: string | null;
  readonly email: string | null;
  readonly ip_address: string | null;
  /** Further attributes. */
  readonly data: Readonly<Record<string, unknown>>;
}

/**
 * An error event after normalisation and scrubbing: every part is within its limits, and no text has NUL characters or
 * lone surrogates (reference: error-tracking §6). Times are ISO 8601 in UTC.
 */
export interface NormalizedEvent {
  readonly project_id: number;
  /** 32 lower-case hexadecimal digits. An event counts once per project, however often it is sent. */
  readonly event_id: string;
  readonly received_at: string;
  /** The time of the error, corrected for a wrong clock of the sender. Not after `received_at`. */
  readonly timestamp: string;
  readonly level: Level;
  readonly platform: string;
  readonly logger: string | null;
  readonly transaction: string | null;
  readonly server_name: string | null;
  readonly release: string | null;
  readonly dist: string | null;
  readonly environment: string | null;
  /** `template` is null if the sender gave no parameters. */
  readonly message: { readonly template: string | null; readonly formatted: string } | null;
  /** Oldest first; the last was thrown. */
  readonly exceptions: readonly NormalizedException[];
  /** The stack of the event or of its crashed thread, if no exception has one. */
  readonly stack: readonly NormalizedFrame[];
  readonly breadcrumbs: readonly NormalizedBreadcrumb[];
  readonly request: NormalizedRequest | null;
  readonly user: NormalizedUser | null;
  readonly tags: Readonly<Record<string, string>>;
  readonly extra: Readonly<Record<string, unknown>>;
  readonly contexts: Readonly<Record<string, unknown>>;
  readonly modules: Readonly<Record<string, string>>;
  /** The grouping that the application asks for. `{{ default }}` stands for the usual one. Empty if it asks for none. */
  readonly fingerprint: readonly string[];
  readonly sdk: { readonly name: string | null; readonly version: string | null } | null;
  /** The parts that were cut to their limit, such as `exceptions.0.value`. */
  readonly cut: readonly string[];
}

/** Sessions of one release, environment and hour. An update of a session that was counted before has a `total` of 0. */
export interface SessionCounts {
  readonly project_id: number;
  /** The id of a single session, whose updates count once. Null for sessions that the SDK has counted already. */
  readonly sid: string | null;
  readonly release: string;
  readonly environment: string | null;
  /** The time at which they started; rounded down to the hour. */
  readonly started: string;
  readonly total: number;
  readonly errored: number;
  readonly crashed: number;
  readonly abnormal: number;
}

/** Events that an SDK dropped before sending them, as it reports it. */
export interface ClientDiscard {
  readonly project_id: number;
  readonly timestamp: string;
  readonly reason: string;
  readonly category: string;
  readonly quantity: number;
}

/** The report of a user who saw the error. */
export interface UserReport {
  readonly project_id: number;
  readonly event_id: string;
  readonly name: string;
  readonly email: string;
  readonly comments: string;
  readonly received_at: string;
}

export { recordAll } from './digest/record-all.ts';
export { recordEvents } from './digest/record-events.ts';
export { recordClientReports, recordUserReports } from './digest/reports.ts';
export { recordSessions } from './digest/sessions.ts';
