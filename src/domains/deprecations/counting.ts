import { sql } from 'kysely';
import { today } from '#platform/clock.ts';
import type { Actor, Services } from '#platform/context.ts';
import { ANONYMOUS, type Caller, callerOf } from './model.ts';

/** How long counts wait in memory. A crash loses this much. */
const FLUSH_MS = 2_000;
/** Further combinations of credential and name are counted as anonymous. */
const MAX_PENDING = 10_000;

interface Pending extends Caller {
  readonly day: string;
  readonly name: string;
  uses: number;
  last_used_at: Date;
}

interface Counter {
  pending: Map<string, Pending>;
  timer: NodeJS.Timeout | null;
  /** The write in progress. */
  writing: Promise<void>;
}

const counters = new WeakMap<Services, Counter>();

const counterOf = (services: Services): Counter => {
  let counter = counters.get(services);
  if (!counter) {
    counter = { pending: new Map(), timer: null, writing: Promise.resolve() };
    counters.set(services, counter);
  }
  return counter;
};

/**
 * Counts the use of deprecated names in memory. All counts of two seconds are written with one statement, so that no
 * request waits for a count or writes one.
 */
export const countUses = (
  services: Services,
  { names, actor }: { readonly names: readonly string[]; readonly actor: Actor },
): void => {
  const counter = counterOf(services);
  const user = callerOf(actor);
  const [day, now] = [today(services.clock), services.clock.now()];
  for (const name of new Set(names)) add(counter.pending, { ...user, day, name, uses: 1, last_used_at: now });
  counter.timer ??= setTimeout(() => void flushUses(services), FLUSH_MS).unref();
};

const add = (pending: Map<string, Pending>, use: Pending): void => {
  const key = [use.day, use.kind, use.credential, use.name].join('\0');
  const known = pending.get(key);
  if (known) {
    known.uses += use.uses;
    if (use.last_used_at > known.last_used_at) known.last_used_at = use.last_used_at;
  } else if (pending.size < MAX_PENDING || use.kind === 'none') pending.set(key, use);
  else add(pending, { ...use, ...ANONYMOUS });
};

/** Writes the counts in memory. Counts that cannot be written wait for the next time. */
export const flushUses = (services: Services): Promise<void> => {
  const counter = counterOf(services);
  if (counter.timer) clearTimeout(counter.timer);
  counter.timer = null;
  counter.writing = counter.writing.then(() => write(services, counter));
  return counter.writing;
};

const write = async (services: Services, counter: Counter): Promise<void> => {
  const uses = [...counter.pending.values()];
  if (uses.length === 0) return;
  counter.pending = new Map();
  try {
    await insert(services, uses);
  } catch (error) {
    services.log.warn({ err: error }, 'Could not write the use of deprecated names');
    for (const use of uses) add(counter.pending, use);
  }
};

/** Skips users who were deleted meanwhile. */
const insert = ({ db }: Services, uses: readonly Pending[]): Promise<unknown> =>
  sql`
    insert into deprecated_uses as known (day, kind, credential, holder_id, name, uses, last_used_at)
    select day, kind, credential, holder_id, name, uses, last_used_at
    from jsonb_to_recordset(${JSON.stringify(uses)}::jsonb) as given (day date, kind text, credential text,
      holder_id bigint, name text, uses bigint, last_used_at timestamptz)
    where holder_id is null or exists (select 1 from users where users.id = given.holder_id)
    on conflict (kind, credential, name, day) do update
      set uses = known.uses + excluded.uses, last_used_at = greatest(known.last_used_at, excluded.last_used_at)`.execute(
    db,
  );
