import { createHash } from 'node:crypto';
import type { NormalizedEvent, NormalizedException } from '../event.ts';
import { isInApp, stableFile, stableFrames } from './frames.ts';
import { parameterise } from './parameterise.ts';

/**
 * The version of the algorithm below. Keys of other versions stay in `error_keys`, so a new version needs no migration
 * of errors (docs/error-tracking.md has the algorithm in words).
 */
export const ALGORITHM = 1;

/** The facts that an event adds to its error. */
export interface Grouping {
  /** SHA-256, in hexadecimal. Events of a project with the same digest belong to one error. */
  readonly digest: string;
  /** The type of the last exception. */
  readonly type: string | null;
  readonly title: string;
  /** The place of the error: the transaction, or the function that crashed. */
  readonly culprit: string | null;
}

const MAX_TITLE = 300;
const MAX_CULPRIT = 300;
/** Long chains repeat themselves. */
const MAX_CHAIN = 10;
const DEFAULT_MARK = /^\{\{\s*default\s*\}\}$/;

/** Returns the group of the event, and the texts that an error gets from its first event. */
export const groupingOf = (event: NormalizedEvent): Grouping => ({
  digest: createHash('sha256')
    .update(JSON.stringify(fingerprintOf(event)))
    .digest('hex'),
  type: event.exceptions.at(-1)?.type ?? null,
  title: titleOf(event),
  culprit: culpritOf(event),
});

/** Returns the values that decide the group: those that the application asks for, or those of the algorithm. */
const fingerprintOf = (event: NormalizedEvent): readonly unknown[] => {
  const { fingerprint } = event;
  if (fingerprint.length === 0) return defaultFingerprint(event);
  if (fingerprint.every((part) => DEFAULT_MARK.test(part))) return defaultFingerprint(event);
  return ['custom', ...fingerprint.map((part) => (DEFAULT_MARK.test(part) ? defaultFingerprint(event) : part))];
};

const defaultFingerprint = (event: NormalizedEvent): readonly unknown[] => {
  const chain = event.exceptions.slice(-MAX_CHAIN);
  if (chain.length > 0) return chainFingerprint(event, chain);
  if (event.message) {
    return ['message', event.logger, event.message.template ?? parameterise(event.message.formatted)];
  }
  const frames = stableFrames(event.stack, event.platform);
  return frames.length > 0 ? ['stack', frames] : ['nothing', event.platform, event.level, event.transaction];
};

const chainFingerprint = (
  { platform, stack }: NormalizedEvent,
  chain: readonly NormalizedException[],
): readonly unknown[] => {
  const parts = chain.map((exception, index) => ({
    type: typeOf(exception),
    frames: stableFrames(index === chain.length - 1 ? framesOf(exception, stack) : exception.frames, platform),
  }));
  if (parts.some(({ frames }) => frames.length > 0)) return ['exceptions', parts];
  return [
    'values',
    chain.map((exception) => {
      const crash = exception.frames.at(-1);
      return [typeOf(exception), parameterise(exception.value ?? ''), crash ? stableFile(crash) : ''];
    }),
  ];
};

const typeOf = ({ type, mechanism }: NormalizedException): string | null => (mechanism?.synthetic ? null : type);

const framesOf = (exception: NormalizedException, stack: NormalizedEvent['stack']) =>
  exception.frames.length > 0 ? exception.frames : stack;

const titleOf = ({ exceptions, message, transaction, stack }: NormalizedEvent): string => {
  const last = exceptions.at(-1);
  const value = firstLine(last?.value ?? '');
  const crash = stack.at(-1)?.function;
  const title = last
    ? last.mechanism?.synthetic && value !== ''
      ? value
      : [last.type ?? 'Error', value].filter((text) => text !== '').join(': ')
    : firstLine(message?.formatted ?? '') || transaction || crash || 'Event without a message';
  return shortened(title, MAX_TITLE);
};

const culpritOf = ({ transaction, exceptions, stack }: NormalizedEvent): string | null => {
  if (transaction) return shortened(transaction, MAX_CULPRIT);
  const last = exceptions.at(-1);
  const frames = last ? framesOf(last, stack) : stack;
  const crash = frames.findLast(isInApp) ?? frames.at(-1);
  if (!crash) return null;
  const place = crash.module ?? crash.filename;
  const culprit = [place, crash.function].filter((text) => text !== null && text !== '').join(' in ');
  return culprit === '' ? null : shortened(culprit, MAX_CULPRIT);
};

const firstLine = (text: string): string => text.trimStart().split('\n', 1)[0]?.trimEnd() ?? '';

const shortened = (text: string, limit: number): string =>
  text.length <= limit ? text : `${text.slice(0, limit - 1).toWellFormed()}…`;
