import { RE2JS } from 're2js';
import { type FieldErrors, tooLong } from '#platform/errors.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import { isStorable } from '#platform/values/storable.ts';
import { PATTERN_NAMES, type Pattern, type PushRuleAttributes } from './model.ts';

const MAX_LENGTH = 511;
/** Limits the memory use and the compile time of a pattern. */
const MAX_PROGRAM_SIZE = 1_000;
const MAX_MEBIBYTES = 2 ** 31 - 1;

/** Returns the compile flags of a pattern. In messages `^` and `$` match at line breaks. */
export const flagsOf = (pattern: Pattern): number =>
  pattern === 'commit_message_regex' || pattern === 'commit_message_negative_regex' ? RE2JS.MULTILINE : 0;

/** Returns a test for the pattern that runs in linear time; null if the rule has none. */
export const testOf = (pattern: Pattern, text: string): ((subject: string) => boolean) | null => {
  if (text === '') return null;
  const compiled = RE2JS.compile(text, flagsOf(pattern));
  return (subject) => compiled.test(subject);
};

/** Returns the errors by attribute. */
export const problemsOf = (given: PushRuleAttributes): FieldErrors => {
  const problems: Record<string, string[]> = {};
  for (const name of PATTERN_NAMES) {
    const problem = patternProblem(given[name] ?? '');
    if (problem !== null) problems[name] = [problem];
  }
  const size = given.max_file_size ?? 0;
  if (size < 0) problems.max_file_size = ['must be greater than or equal to 0'];
  if (size > MAX_MEBIBYTES) problems.max_file_size = [`must be less than or equal to ${MAX_MEBIBYTES}`];
  return problems;
};

const patternProblem = (text: string): string | null => {
  if (isLongerThan(text, MAX_LENGTH)) return tooLong(MAX_LENGTH);
  if (!isStorable(text)) return 'is invalid';
  try {
    return RE2JS.compile(text).programSize() > MAX_PROGRAM_SIZE ? 'is too complex' : null;
  } catch {
    return 'is not a valid regular expression (RE2)';
  }
};
