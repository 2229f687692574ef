import { sql } from 'kysely';
import { labelDigest, type OpenLabels } from '#domains/access/labels.ts';
import { getSettings, type StoredSettings } from '#domains/settings/queries.ts';
import { defineCache } from '#platform/cache.ts';
import { mapLimit } from '#platform/concurrency/map-limit.ts';
import type { Actor, Context, Services } from '#platform/context.ts';
import { mayEnter, readAskedUser } from './service.ts';

/** Projects with further labels are closed to everybody but administrators. */
const MAX_LABELS = 1_000;
const AT_ONCE = 8;
/** The list of labels in use is at most this old. A project with a new label is closed until the list is read again. */
const LABELS_MS = 5_000;
const NONE: OpenLabels = { digests: [], unanswered: [] };

/** The labels of projects. Remains the same object while they are the same. */
interface LabelList {
  readonly labels: readonly { readonly label: string; readonly digest: string }[];
  readAt: number;
}

/** The list of labels, under one key. */
const cachedLabels = defineCache<'all', LabelList>({ name: 'classification labels', limit: 1 });

/** The cached answers for one user. They count for this list of labels and this version of the settings. */
interface Opened {
  readonly list: LabelList;
  readonly settings: string;
  readonly labels: Promise<OpenLabels>;
  /** When the first answer expires, as of `performance.now()`. Infinite while a request to the service runs. */
  until: number;
}

/** By the id of the user. An entry weighs the number of labels. */
const cachedOpened = defineCache<number, Opened>({
  name: 'open classification labels',
  limit: 1_000_000,
  weightOf: ({ list }) => list.labels.length,
});

/**
 * Returns for each actor the labels whose projects are open to them, or undefined if no service decides about them: none
 * is set, or they are an administrator. Anonymous callers may enter no project. With `current`, the list of labels is read
 * again.
 */
export const openLabels = async (
  { services }: Pick<Context, 'services'>,
  actors: readonly Actor[],
  { current }: { readonly current: boolean },
): Promise<readonly (OpenLabels | undefined)[]> => {
  const settings = await getSettings({ services });
  if (!settings.external_authorization_service_enabled) return actors.map(() => undefined);
  const list = await labelsInUse(services, current);
  return Promise.all(
    actors.map(({ isAdmin, userId }) =>
      isAdmin ? undefined : userId === null ? NONE : openTo(services, settings, list, userId),
    ),
  );
};

/** A request costs one look-up until an answer expires, a label is new, or the settings change. */
const openTo = (services: Services, settings: StoredSettings, list: LabelList, userId: number): Promise<OpenLabels> => {
  const cache = cachedOpened(services);
  const cached = cache.get(userId);
  const isCurrent = cached && cached.list === list && cached.settings === settings.updated_at;
  if (isCurrent && cached.until > performance.now()) return cached.labels;
  const asked = askForUser(services, settings, list, userId);
  const opened: Opened = {
    list,
    settings: settings.updated_at,
    labels: asked.then(({ labels }) => labels),
    until: Number.POSITIVE_INFINITY,
  };
  cache.set(userId, opened);
  asked.then(
    ({ until }) => {
      opened.until = until;
    },
    // The callers get the error. The next one asks again.
    () => {
      opened.until = 0;
    },
  );
  return opened.labels;
};

const askForUser = async (
  services: Services,
  settings: StoredSettings,
  { labels }: LabelList,
  userId: number,
): Promise<{ readonly labels: OpenLabels; readonly until: number }> => {
  const user = await readAskedUser(services, userId);
  if (!user) return { labels: NONE, until: 0 };
  const usual = settings.external_authorization_service_default_label;
  const answers = await mapLimit(labels, AT_ONCE, ({ label }) => mayEnter(services, settings, user, label || usual));
  return {
    labels: {
      digests: labels.flatMap(({ digest }, index) => (answers[index]?.isOpen ? [digest] : [])),
      unanswered: labels.flatMap(({ digest }, index) => (answers[index]?.isAnswered ? [] : [digest])),
    },
    until: Math.min(...answers.map(({ until }) => until)),
  };
};

/** Returns the labels of all projects, and the empty one of projects that have none. */
const labelsInUse = async (services: Services, current: boolean): Promise<LabelList> => {
  const cache = cachedLabels(services);
  const cached = cache.get('all');
  const readAt = performance.now();
  if (cached && !current && readAt - cached.readAt < LABELS_MS) return cached;
  const { rows } = await sql<{ label: string }>`
    select distinct external_authorization_classification_label as label from projects
    where external_authorization_classification_label <> '' order by 1 limit ${MAX_LABELS}`.execute(services.db);
  const read = ['', ...rows.map(({ label }) => label)];
  const known = cache.get('all');
  if (known?.labels.length === read.length && known.labels.every(({ label }, index) => label === read[index])) {
    known.readAt = readAt;
    return known;
  }
  const list = { labels: read.map((label) => ({ label, digest: labelDigest(label) })), readAt };
  cache.set('all', list);
  return list;
};
