import type { NormalizedEvent } from '#domains/error-tracking/event.ts';
import { LEVELS } from '#domains/error-tracking/model.ts';
import type { JsonObject } from '#platform/values/json.ts';
import { cleanText } from '#platform/values/to-jsonb.ts';
import { Cutter } from './cutter.ts';
import { readBreadcrumbs, readMessage } from './messages.ts';
import { readRequest, readUser } from './request.ts';
import { FILTERED, isSecretName, scrubText } from './scrubbing.ts';
import { readExceptions, readFrames, readThreadStack, textOf } from './stacks.ts';
import { SenderClock } from './times.ts';
import { asEntries, asObject, asText, fromEntries } from './values.ts';

/** The facts about an event that its payload lacks. */
export interface Arrived {
  readonly project_id: number;
  readonly event_id: string;
  /** ISO 8601. */
  readonly received_at: string;
  readonly address: string;
  /** `sent_at` and `sdk` of the envelope. */
  readonly header: JsonObject;
}

const PLATFORMS = new Set([
  ...['as3', 'c', 'cfml', 'cocoa', 'csharp', 'dart', 'elixir', 'go', 'groovy', 'haskell', 'java', 'javascript'],
  ...['kotlin', 'native', 'node', 'objc', 'other', 'perl', 'php', 'powershell', 'python', 'ruby', 'rust', 'swift'],
]);
const MAX_TAGS = 100;
const MAX_TAG = 200;
const MAX_MODULES = 1_000;
const MAX_FINGERPRINT = 20;
const EXTRA = { characters: 16_384, depth: 7 };
const EXTRA_TOTAL = 262_144;
const CONTEXT = { characters: 8_192, depth: 7 };
const CONTEXTS_TOTAL = 65_536;

/**
 * Makes an event of what an SDK sent. It is lenient: a part of a wrong type is left out, and the event stays. Long parts
 * are cut and marked, and secrets are replaced (reference: error-tracking §6).
 */
export const normalizeEvent = (sent: JsonObject, arrived: Arrived): NormalizedEvent => {
  const given = withoutOldNames(sent);
  const cutter = new Cutter();
  const clock = new SenderClock(arrived.received_at, arrived.header.sent_at);
  const exceptions = readExceptions(given.exception, cutter);
  const hasStack = exceptions.some(({ frames }) => frames.length > 0);
  const timestamp = clock.readPast(given.timestamp);
  const platform = asText(given.platform)?.toLowerCase() ?? 'other';
  const ofThread = hasStack ? [] : readThreadStack(given.threads, cutter);
  return {
    project_id: arrived.project_id,
    event_id: arrived.event_id,
    received_at: new Date(arrived.received_at).toISOString(),
    timestamp,
    level: LEVELS.find((level) => level === given.level) ?? 'error',
    platform: PLATFORMS.has(platform) ? platform : 'other',
    logger: textOf(given.logger, 64, cutter, 'logger'),
    transaction: textOf(given.transaction ?? given.culprit, 200, cutter, 'transaction'),
    server_name: textOf(given.server_name, 256, cutter, 'server_name'),
    release: lineOf(given.release, 200, cutter, 'release'),
    dist: lineOf(given.dist, 64, cutter, 'dist'),
    environment: lineOf(given.environment, 64, cutter, 'environment'),
    message: readMessage(given.logentry ?? given.message, cutter),
    exceptions,
    stack: hasStack || ofThread.length > 0 ? ofThread : readFrames(given.stacktrace, cutter, 'stack'),
    breadcrumbs: readBreadcrumbs(given.breadcrumbs, clock, cutter),
    request: readRequest(asObject(given.request), cutter),
    user: readUser(asObject(given.user), arrived.address, cutter),
    tags: readTags(given.tags, cutter),
    extra: cutter.object(asObject(given.extra) ?? {}, EXTRA, EXTRA_TOTAL, 'extra'),
    contexts: cutter.object(asObject(given.contexts) ?? {}, CONTEXT, CONTEXTS_TOTAL, 'contexts'),
    modules: readModules(given.modules, cutter),
    fingerprint: Array.isArray(given.fingerprint)
      ? cutter
          .first(given.fingerprint, MAX_FINGERPRINT, 'fingerprint')
          .flatMap((part) => textOf(part, MAX_TAG, cutter, 'fingerprint') ?? [])
      : [],
    sdk: readSdk(asObject(given.sdk) ?? asObject(arrived.header.sdk), cutter),
    cut: cutter.paths,
  };
};

const OLD_NAMES: Readonly<Record<string, string>> = {
  Exception: 'exception',
  Stacktrace: 'stacktrace',
  Http: 'request',
  User: 'user',
  Message: 'logentry',
  Breadcrumbs: 'breadcrumbs',
  Contexts: 'contexts',
};

/** Old SDKs name the parts `sentry.interfaces.Exception` and the like. */
const withoutOldNames = (sent: JsonObject): JsonObject => {
  const old = Object.entries(OLD_NAMES).filter(
    ([name, now]) => `sentry.interfaces.${name}` in sent && sent[now] === undefined,
  );
  if (old.length === 0) return sent;
  return { ...sent, ...Object.fromEntries(old.map(([name, now]) => [now, sent[`sentry.interfaces.${name}`]])) };
};

/** Names of releases and environments have one line. */
const lineOf = (value: unknown, max: number, cutter: Cutter, path: string): string | null => {
  const text = asText(value)?.trim() ?? '';
  return text === '' || /[\r\n]/.test(text) ? null : cutter.text(text, max, path);
};

const readTags = (value: unknown, cutter: Cutter): Readonly<Record<string, string>> =>
  fromEntries(
    cutter
      .first(
        asEntries(value).flatMap(([key, of]) => {
          const text = asText(of);
          return key === '' || text === null ? [] : [[key, text] as const];
        }),
        MAX_TAGS,
        'tags',
      )
      .map(([key, text]) => {
        const name = cutter.text(key.replaceAll(' ', '-'), MAX_TAG, 'tags');
        return [name, isSecretName(key) ? FILTERED : cutter.text(scrubText(text), MAX_TAG, `tags.${name}`)] as const;
      }),
  );

const readModules = (value: unknown, cutter: Cutter): Readonly<Record<string, string>> => {
  let left = CONTEXT.characters;
  const kept: [string, string][] = [];
  for (const [name, version] of cutter.first(asEntries(asObject(value)), MAX_MODULES, 'modules')) {
    const text = cleanText(asText(version) ?? '').slice(0, 100);
    const key = cleanText(name).slice(0, 200);
    left -= key.length + text.length;
    if (left < 0) {
      cutter.mark('modules');
      break;
    }
    kept.push([key, text]);
  }
  return fromEntries(kept);
};

const readSdk = (given: JsonObject | null, cutter: Cutter): NormalizedEvent['sdk'] =>
  given && {
    name: textOf(given.name, 64, cutter, 'sdk.name'),
    version: textOf(given.version, 64, cutter, 'sdk.version'),
  };
