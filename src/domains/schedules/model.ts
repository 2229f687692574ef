import type { Selectable } from 'kysely';
import { z } from 'zod';
import { keyProblemOf, type VariableType, valueProblemOf } from '#domains/ci-variables/model.ts';
import type { PipelineSchedules, PipelineScheduleVariables } from '#platform/db/tables.ts';
import { type FieldErrors, invalid, tooLong } from '#platform/errors.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import { ianaZone, nextRun } from './cron.ts';

export interface ScheduleRow extends Selectable<PipelineSchedules> {
  /** The newest pipeline that the schedule started. */
  readonly last_pipeline_id: number | null;
}

export type ScheduleVariableRow = Selectable<PipelineScheduleVariables>;

export const SCHEDULE_SCOPES = ['active', 'inactive'] as const;
export type ScheduleScope = (typeof SCHEDULE_SCOPES)[number];

/** The attributes that people may set. */
export interface ScheduleAttributes {
  readonly description?: string | undefined;
  /** A branch or tag, with or without `refs/heads/` and `refs/tags/`. */
  readonly ref?: string | undefined;
  readonly cron?: string | undefined;
  readonly cron_timezone?: string | undefined;
  readonly active?: boolean | undefined;
  readonly inputs?: readonly ScheduleInput[] | undefined;
}

export interface NewSchedule extends ScheduleAttributes {
  readonly description: string;
  readonly ref: string;
  readonly cron: string;
}

/** An input for the CI file. An update with `destroy` removes it. */
export interface ScheduleInput {
  readonly name: string;
  readonly value?: unknown;
  readonly destroy?: boolean | undefined;
}

export interface ScheduleVariable {
  readonly key: string;
  readonly value?: string | undefined;
  readonly variable_type?: VariableType | undefined;
  readonly destroy?: boolean | undefined;
}

export const MAX_SCHEDULES = 10;
export const MAX_INPUTS = 20;
const MAX_INPUT_NAME = 255;
const MAX_DESCRIPTION = 1_024;
const MAX_CRON = 255;

const storedInputs = z.array(z.object({ name: z.string(), value: z.unknown() }));

/** Returns the inputs of a schedule. */
export const inputsOf = ({ inputs }: Pick<ScheduleRow, 'inputs'>): readonly { name: string; value?: unknown }[] =>
  storedInputs.parse(inputs);

/**
 * Returns the inputs after a change: each given one takes the place of the one with its name.
 *
 * @throws DomainError `invalid` for too many, and for a long name
 */
export const mergedInputs = (
  before: readonly ScheduleInput[],
  given: readonly ScheduleInput[],
): readonly ScheduleInput[] => {
  const byName = new Map(before.map(({ name, value }) => [name, value]));
  for (const { name, value, destroy } of given) {
    if (isLongerThan(name, MAX_INPUT_NAME)) throw invalid({ inputs: [`name ${tooLong(MAX_INPUT_NAME)}`] });
    if (destroy) byName.delete(name);
    else byName.set(name, value ?? null);
  }
  if (byName.size > MAX_INPUTS) throw invalid({ inputs: [`is too long (maximum is ${MAX_INPUTS})`] });
  return [...byName].map(([name, value]) => ({ name, value }));
};

interface Checked {
  readonly description: string;
  readonly cron: string;
  readonly cron_timezone: string;
}

/** Returns what is wrong with a schedule, by attribute (reference: ci §8). */
export const problemsOf = ({ description, cron, cron_timezone }: Checked, now: Date): FieldErrors => {
  const problems: Record<string, string[]> = {};
  if (description.trim() === '') problems.description = ["can't be blank"];
  else if (isLongerThan(description, MAX_DESCRIPTION)) problems.description = [tooLong(MAX_DESCRIPTION)];
  if (ianaZone(cron_timezone) === null)
    problems.cron_timezone = ['is invalid syntax (allowed: a time zone such as UTC or Europe/Berlin)'];
  if (cron.length > MAX_CRON || nextRun(cron, 'UTC', now) === null)
    problems.cron = ['is invalid syntax (allowed: five fields, minute hour day month weekday, such as 0 4 * * 1)'];
  return problems;
};

/** Returns what is wrong with a variable of a schedule, by attribute. */
export const variableProblems = ({ key, value }: { readonly key: string; readonly value: string }): FieldErrors => {
  const keyProblem = keyProblemOf(key);
  if (keyProblem !== null) return { key: [keyProblem] };
  const valueProblem = valueProblemOf(value);
  return valueProblem === null ? {} : { value: [valueProblem] };
};

/** Returns the name and kind of a full ref. */
export const shortRef = (ref: string): { readonly name: string; readonly tag: boolean } => {
  const [, kind, name] = /^refs\/(heads|tags)\/(.+)$/.exec(ref) ?? [];
  return { name: name ?? ref, tag: kind === 'tags' };
};
