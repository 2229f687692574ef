import type { RunnerFacts } from '#domains/runners/tokens.ts';
import type { Context } from '#platform/context.ts';

/** When a runner last looked for a job. */
export interface Seen {
  /** In the event log. */
  readonly position: number;
  /** Milliseconds since 1970. */
  readonly at: number;
}

/** A runner looks again after this time, because settings of projects can let jobs fit that are long pending. */
const LOOK_AGAIN_MS = 5 * 60_000;

/** Makes the runner look at its next request. */
export const NOTHING_SEEN: Seen = { position: 0, at: 0 };

/** Returns what a runner saw according to the value that it sends back. Null if it must look now. */
export const readSeen = (ctx: Pick<Context, 'clock'>, value: string | undefined, facts: RunnerFacts): Seen | null => {
  const [, position = '', at = '', version = ''] = /^(\d{1,15})-(\d{1,15})-(\d{1,20})$/.exec(value ?? '') ?? [];
  if (position === '' || version !== facts.version) return null;
  const seen = { position: Number(position), at: Number(at) };
  const age = ctx.clock.now().getTime() - seen.at;
  return age >= 0 && age < LOOK_AGAIN_MS ? seen : null;
};

/** Writes it for `X-GitLab-Last-Update`. Runners treat the value as opaque. */
export const writeSeen = ({ position, at }: Seen, facts: RunnerFacts): string => `${position}-${at}-${facts.version}`;
