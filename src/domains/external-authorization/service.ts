import { sql } from 'kysely';
import { outboundPolicy } from '#domains/settings/outbound.ts';
import type { StoredSettings } from '#domains/settings/queries.ts';
import { defineCache } from '#platform/cache.ts';
import type { Services } from '#platform/context.ts';
import { OutboundError } from '#platform/http-client/http-client.ts';

/** How long an answer counts. */
const ANSWER_MS = 5 * 60_000;
/** How long a failed request counts as a refusal, so that a service that does not answer does not delay every request. */
const FAILURE_MS = 5_000;
const MAX_RESPONSE_BYTES = 8 * 1024;
/** The most requests of a process to the service at a time. */
const MAX_REQUESTS = 32;

/** Whether a label is open to a user, and until when this counts, as of `performance.now()`. */
interface Answer {
  readonly isOpen: boolean;
  /** False if there was no response. This counts as a refusal for now. */
  readonly isAnswered: boolean;
  readonly until: number;
}

const answers = defineCache<string, Promise<Answer>>({
  name: 'external authorizations',
  limit: 50_000,
  ttlMs: ANSWER_MS,
});
/** Refusals after an answer that was neither yes nor no. */
const failures = defineCache<string, Answer>({
  name: 'failed external authorizations',
  limit: 10_000,
  ttlMs: FAILURE_MS,
});
/** After so many requests in a row without a response, everything that has no answer yet is refused. */
const OUTAGE_AFTER = 3;

interface Silence {
  readonly requests: number;
  readonly refusal: Answer;
}

/** By the URL of a service that gave no response to the last requests. */
const silences = defineCache<string, Silence>({
  name: 'outages of external authorization',
  limit: 10,
  ttlMs: FAILURE_MS,
});

/** The user in a request to the service. */
interface AskedUser {
  readonly id: number;
  readonly email: string;
  readonly identities: readonly { readonly provider: string; readonly extern_uid: string }[];
}

/** Returns null if the user was deleted. */
export const readAskedUser = async ({ db }: Services, userId: number): Promise<AskedUser | null> => {
  const { rows } = await sql<AskedUser>`
    select u.id, u.email, coalesce((
      select jsonb_agg(jsonb_build_object('provider', i.provider, 'extern_uid', i.extern_uid) order by i.id)
      from identities i where i.user_id = u.id), '[]') as identities
    from users u where u.id = ${userId}`.execute(db);
  return rows[0] ?? null;
};

/**
 * Asks the service of `external_authorization_service_url` whether the user may enter projects with the label. 200 means yes,
 * everything else no: also a timeout, a refused address and an answer that is none. Answers are cached by user and label.
 * After `OUTAGE_AFTER` requests without a response no further request is sent for `FAILURE_MS`.
 */
export const mayEnter = async (
  services: Services,
  settings: StoredSettings,
  user: AskedUser,
  label: string,
): Promise<Answer> => {
  const url = settings.external_authorization_service_url;
  const key = JSON.stringify([url, user.id, label]);
  const known = failures(services).get(key) ?? answers(services).get(key) ?? outageOf(services, url);
  if (known) return known;
  const answer = inTurn(services, async () => {
    // The service may have failed while this request waited.
    const outage = outageOf(services, url);
    if (outage) {
      answers(services).delete(key);
      return outage;
    }
    try {
      const isOpen = await ask(services, settings, user, label);
      silences(services).delete(url);
      return { isOpen, isAnswered: true, until: performance.now() + ANSWER_MS };
    } catch (error) {
      const refusal = {
        isOpen: false,
        isAnswered: !(error instanceof OutboundError),
        until: performance.now() + FAILURE_MS,
      };
      services.log.warn({ err: error, user_id: user.id }, 'the external authorization service did not answer');
      failures(services).set(key, refusal);
      if (error instanceof OutboundError) {
        const requests = (silences(services).get(url)?.requests ?? 0) + 1;
        silences(services).set(url, { requests, refusal });
      }
      answers(services).delete(key);
      return refusal;
    }
  });
  answers(services).set(key, answer);
  return answer;
};

const outageOf = (services: Services, url: string): Answer | null => {
  const silence = silences(services).get(url);
  return silence && silence.requests >= OUTAGE_AFTER ? silence.refusal : null;
};

interface Turns {
  running: number;
  readonly waiting: (() => void)[];
}

const allTurns = new WeakMap<Services['caches'], Turns>();

/** Runs at most `MAX_REQUESTS` at a time, in the order of the calls. */
const inTurn = async <T>({ caches }: Services, work: () => Promise<T>): Promise<T> => {
  const turns = allTurns.get(caches) ?? { running: 0, waiting: [] };
  allTurns.set(caches, turns);
  if (turns.running < MAX_REQUESTS) turns.running++;
  else await new Promise<void>((resolve) => turns.waiting.push(resolve));
  try {
    return await work();
  } finally {
    // The next one takes over the place.
    const next = turns.waiting.shift();
    if (next) next();
    else turns.running--;
  }
};

/** @throws OutboundError if there is no response, Error if it is neither yes nor no */
const ask = async (services: Services, settings: StoredSettings, user: AskedUser, label: string): Promise<boolean> => {
  const { status } = await services.http.request({
    url: settings.external_authorization_service_url,
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({
      user_identifier: user.email,
      project_classification_label: label,
      identities: user.identities,
    }),
    policy: await outboundPolicy({ services }),
    timeoutMs: settings.external_authorization_service_timeout * 1_000,
    maxResponseBytes: MAX_RESPONSE_BYTES,
  });
  if (status === 200) return true;
  if (status === 401 || status === 403) return false;
  throw new Error(`the external authorization service answered ${status}`);
};
