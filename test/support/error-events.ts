import { randomBytes } from 'node:crypto';
import type { NormalizedEvent, NormalizedException, NormalizedFrame } from '#domains/error-tracking/event.ts';

export const eventId = (): string => randomBytes(16).toString('hex');

/** Returns a frame of the application's own code. */
export const frame = (fn: string | null, given: Partial<NormalizedFrame> = {}): NormalizedFrame => ({
  function: fn,
  raw_function: null,
  module: null,
  package: null,
  filename: 'app.py',
  abs_path: null,
  lineno: 1,
  colno: null,
  pre_context: [],
  context_line: null,
  post_context: [],
  in_app: true,
  vars: null,
  platform: null,
  ...given,
});

export const exception = (
  type: string | null,
  value: string | null,
  frames: readonly NormalizedFrame[] = [],
  given: Partial<NormalizedException> = {},
): NormalizedException => ({ type, value, module: null, thread_id: null, mechanism: null, frames, ...given });

/** Returns a normalised event that just occurred, with a `ValueError` thrown in `main`. */
export const errorEvent = (projectId: number, given: Partial<NormalizedEvent> = {}): NormalizedEvent => {
  const now = new Date().toISOString();
  return {
    project_id: projectId,
    event_id: eventId(),
    received_at: now,
    timestamp: now,
    level: 'error',
    platform: 'python',
    logger: null,
    transaction: null,
    server_name: null,
    release: null,
    dist: null,
    environment: null,
    message: null,
    exceptions: [exception('ValueError', 'wrong', [frame('main')])],
    stack: [],
    breadcrumbs: [],
    request: null,
    user: null,
    tags: {},
    extra: {},
    contexts: {},
    modules: {},
    fingerprint: [],
    sdk: null,
    cut: [],
    ...given,
  };
};
