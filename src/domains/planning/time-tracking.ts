import { sql } from 'kysely';
import type { Tx } from '#platform/context.ts';
import { badRequest, invalid, tooLong } from '#platform/errors.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import type { Changes } from './changes.ts';
import type { Issuable } from './history.ts';
import { recordSystemNote } from './system-notes.ts';

const HOUR = 3_600;
/** A day has eight working hours, a week five days, and a month four weeks. */
const UNITS = [
  ['mo', 160 * HOUR],
  ['w', 40 * HOUR],
  ['d', 8 * HOUR],
  ['h', HOUR],
  ['m', 60],
  ['s', 1],
] as const;

/** Formats seconds of work as `1w 2d 30m`; null for none. */
export const humanDuration = (seconds: number): string | null => {
  let rest = Math.abs(seconds);
  const parts: string[] = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) parts.push(`${count}${unit}`);
  }
  return parts.length === 0 ? null : `${seconds < 0 ? '-' : ''}${parts.join(' ')}`;
};

/** Returns the time object of records. */
export const timeStats = (time_estimate: number, total_time_spent: number) => ({
  time_estimate,
  total_time_spent,
  human_time_estimate: humanDuration(time_estimate),
  human_total_time_spent: humanDuration(total_time_spent),
});

const MAX_SECONDS = 2_147_483_647;
const MAX_SUMMARY = 255;
/** The longest text of a duration. */
export const MAX_DURATION = 255;
const PART = /(\d{1,10}(?:\.\d{1,10})?) *(mo|w|d|h|m|s)/y;

/**
 * Parses a duration such as `1w 2d`, `3h30m` or `-30m` into seconds. A number without a unit is hours. Returns null for
 * anything else (reference merge-requests §7).
 */
export const parseDuration = (given: string): number | null => {
  if (given.length > MAX_DURATION) return null;
  const text = given.trim().toLowerCase();
  const isNegative = text.startsWith('-');
  const body = isNegative ? text.slice(1).trim() : text;
  const seconds = /^\d{1,10}(?:\.\d{1,10})?$/.test(body) ? Number(body) * HOUR : sumOfParts(body);
  if (seconds === null) return null;
  const whole = Math.round(seconds);
  return whole > MAX_SECONDS ? null : isNegative && whole > 0 ? -whole : whole;
};

const sumOfParts = (body: string): number | null => {
  let sum = 0;
  let at = 0;
  while (at < body.length) {
    PART.lastIndex = at;
    const part = PART.exec(body);
    const size = UNITS.find(([unit]) => unit === part?.[2])?.[1];
    if (!part || size === undefined) return null;
    sum += Number(part[1]) * size;
    at += part[0].length;
    while (body.charAt(at) === ' ') at++;
  }
  return at === 0 ? null : sum;
};

/** @throws DomainError `bad_request` if it is not a duration */
export const readDuration = (given: string, name: 'duration' | 'timeSpent' | 'timeEstimate'): number => {
  const seconds = parseDuration(given);
  if (seconds === null) throw badRequest(`${name} is invalid (allowed: a duration such as 1w 2d 3h 30m)`);
  return seconds;
};

/** @throws DomainError `bad_request` if it is not a duration of zero or more */
export const readEstimate = (given: string, name: 'duration' | 'timeEstimate'): number => {
  const seconds = readDuration(given, name);
  if (seconds < 0) throw badRequest(`${name} is invalid (allowed: zero or more)`);
  return seconds;
};

/** Time to add, negative to subtract, or `reset` for no time at all. */
export interface SpentTime {
  readonly seconds: number | 'reset';
  readonly summary?: string | null | undefined;
  readonly spent_at?: string | null | undefined;
}

/**
 * Logs time on an issue or merge request, which the caller has locked. Returns the change of the total; null if nothing
 * changed.
 *
 * @throws DomainError `bad_request` for zero, and if less than nothing would be left; `invalid` for a long summary
 */
const recordSpentTime = async (
  tx: Tx,
  of: Issuable,
  { seconds, summary = null, spent_at = null }: SpentTime,
): Promise<Changes[string] | null> => {
  if (isLongerThan(summary ?? '', MAX_SUMMARY)) throw invalid({ summary: [tooLong(MAX_SUMMARY)] });
  const previous = await totalTimeSpent(tx, of);
  if (seconds === 'reset' && previous === 0) return null;
  const added = seconds === 'reset' ? -previous : seconds;
  const current = previous + added;
  if (added === 0) throw badRequest('duration is invalid (allowed: more or less than zero)');
  if (current < 0) throw badRequest('Time to subtract exceeds the total time spent');
  if (current > MAX_SECONDS) throw badRequest('The total time spent is too long');
  await tx.db
    .insertInto('timelogs')
    .values({ ...of, user_id: tx.actor.userId, time_spent: added, summary, spent_at: spent_at ?? sql<string>`now()` })
    .execute();
  await recordSystemNote(tx, of, 'time_tracking', spentNote(seconds));
  return { previous, current };
};

const spentNote = (seconds: SpentTime['seconds']): string => {
  if (seconds === 'reset') return 'removed time spent';
  return `${seconds < 0 ? 'subtracted' : 'added'} ${humanDuration(Math.abs(seconds))} of time spent`;
};

/** Logs time, or deletes a logged time, as the changes of an issue or merge request say. */
export const changeSpentTime = (
  tx: Tx,
  of: Issuable,
  {
    spent_time,
    delete_timelog,
  }: { readonly spent_time?: SpentTime | undefined; readonly delete_timelog?: number | undefined },
): Promise<Changes[string] | null> | null => {
  if (spent_time) return recordSpentTime(tx, of, spent_time);
  return delete_timelog === undefined ? null : deleteTimelog(tx, of, delete_timelog);
};

/** Returns the change of the spent time, in seconds and in words, for webhook bodies. */
export const timeChange = ({ total_time_spent: change }: Changes) => {
  const seconds = change ? Number(change.current ?? 0) - Number(change.previous ?? 0) : 0;
  return { time_change: seconds, human_time_change: humanDuration(seconds) };
};

/** Deletes a logged time. Returns the change of the total of its issue or merge request, which the caller has locked. */
const deleteTimelog = async (tx: Tx, of: Issuable, id: number): Promise<Changes[string] | null> => {
  const previous = await totalTimeSpent(tx, of);
  const deleted = await tx.db.deleteFrom('timelogs').where('id', '=', id).returning('time_spent').executeTakeFirst();
  if (!deleted) return null;
  const spent = humanDuration(Math.abs(deleted.time_spent));
  await recordSystemNote(tx, of, 'time_tracking', `deleted ${spent} of spent time`);
  return { previous, current: previous - deleted.time_spent };
};

const totalTimeSpent = async (tx: Tx, of: Issuable): Promise<number> => {
  const [column, id] =
    'issue_id' in of ? (['issue_id', of.issue_id] as const) : (['merge_request_id', of.merge_request_id] as const);
  const { total } = await tx.db
    .selectFrom('timelogs')
    .select(sql<number>`coalesce(sum(time_spent), 0)::bigint`.as('total'))
    .where(column, '=', id)
    .executeTakeFirstOrThrow();
  return total;
};
