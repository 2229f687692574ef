import type { NormalizedException, NormalizedFrame, NormalizedMechanism } from '#domains/error-tracking/event.ts';
import type { JsonObject } from '#platform/values/json.ts';
import type { Cutter } from './cutter.ts';
import { asBoolean, asInteger, asList, asObject, asText } from './values.ts';

const MAX_EXCEPTIONS = 50;
const MAX_FRAMES = 250;
/** Frames with variables and source lines. The middle of longer stacks has none. */
const MAX_DETAILED_FRAMES = 50;
const MAX_CONTEXT_LINES = 10;
const MAX_LINE = 1_024;
const VARS = { characters: 8_192, depth: 5 };

/** Reads exceptions, oldest first. */
export const readExceptions = (value: unknown, cutter: Cutter): readonly NormalizedException[] =>
  cutter
    .last(asList(value), MAX_EXCEPTIONS, 'exceptions')
    .flatMap((item, index) => readException(asObject(item), cutter, `exceptions.${index}`) ?? []);

const readException = (given: JsonObject | null, cutter: Cutter, path: string): NormalizedException | null => {
  if (!given) return null;
  const type = textOf(given.type, 256, cutter, `${path}.type`);
  const value = textOf(valueText(given.value, cutter), 8_192, cutter, `${path}.value`);
  const frames = readFrames(given.stacktrace ?? given.raw_stacktrace, cutter, path);
  if (type === null && value === null && frames.length === 0) return null;
  return {
    type,
    value,
    module: textOf(given.module, 256, cutter, `${path}.module`),
    thread_id: textOf(given.thread_id, 64, cutter, `${path}.thread_id`),
    mechanism: readMechanism(asObject(given.mechanism), cutter, path),
    frames,
  };
};

/** The value of an exception may be any JSON. */
const valueText = (value: unknown, cutter: Cutter): unknown =>
  typeof value === 'object' && value !== null
    ? JSON.stringify(cutter.json(value, { characters: 8_192, depth: 7 }, 'exceptions'))
    : value;

const readMechanism = (given: JsonObject | null, cutter: Cutter, path: string): NormalizedMechanism | null =>
  given && {
    type: textOf(given.type, 128, cutter, `${path}.mechanism.type`),
    handled: asBoolean(given.handled),
    synthetic: given.synthetic === true,
    exception_id: asInteger(given.exception_id),
    parent_id: asInteger(given.parent_id),
    is_exception_group: given.is_exception_group === true,
  };

/** Reads the stack of the crashed thread, or of the only one. */
export const readThreadStack = (value: unknown, cutter: Cutter): readonly NormalizedFrame[] => {
  const threads = asList(value).map(asObject);
  const thread = threads.find((each) => each?.crashed === true) ?? (threads.length === 1 ? threads[0] : null);
  return thread ? readFrames(thread.stacktrace, cutter, 'threads') : [];
};

/** Reads the frames of a stack trace, the caller first. */
export const readFrames = (stack: unknown, cutter: Cutter, path: string): readonly NormalizedFrame[] => {
  const frames = asObject(stack)?.frames;
  if (!Array.isArray(frames)) return [];
  const kept = cutter.last(frames, MAX_FRAMES, `${path}.frames`).map(asObject);
  const plain = framesWithoutDetails(kept);
  if (plain.size > 0) cutter.mark(`${path}.frames`);
  return kept.flatMap((frame, index) =>
    frame ? [readFrame(frame, !plain.has(index), cutter, `${path}.frames.${index}`)] : [],
  );
};

/** Chooses the frames in the middle that lose their details, those of libraries first. */
const framesWithoutDetails = (frames: readonly (JsonObject | null)[]): ReadonlySet<number> => {
  const excess = frames.length - MAX_DETAILED_FRAMES;
  if (excess <= 0) return new Set();
  const half = MAX_DETAILED_FRAMES / 2;
  const middle = Array.from({ length: excess }, (_, index) => half + index);
  // Details of the application's own frames next to the crash are worth more than those of other frames.
  const own = middle.filter((index) => frames[index]?.in_app === true).slice(-half);
  const outer = Array.from({ length: half }, (_, index) => index).filter((index) => frames[index]?.in_app !== true);
  const spared = new Set(own.slice(0, outer.length));
  return new Set([...middle.filter((index) => !spared.has(index)), ...outer.slice(0, spared.size)]);
};

const readFrame = (given: JsonObject, detailed: boolean, cutter: Cutter, path: string): NormalizedFrame => {
  const text = (name: string, max: number) => textOf(given[name], max, cutter, `${path}.${name}`);
  const lines = (name: string) =>
    detailed && Array.isArray(given[name])
      ? cutter
          .first(given[name], MAX_CONTEXT_LINES, `${path}.${name}`)
          .map((line) => cutter.text(asText(line) ?? '', MAX_LINE, `${path}.${name}`))
      : [];
  const vars = detailed ? asObject(given.vars) : null;
  return {
    function: text('function', 512),
    raw_function: text('raw_function', 512),
    module: text('module', 256),
    package: text('package', 256),
    filename: text('filename', 512),
    abs_path: text('abs_path', 1_024),
    lineno: asInteger(given.lineno),
    colno: asInteger(given.colno),
    pre_context: lines('pre_context'),
    context_line: detailed ? text('context_line', MAX_LINE) : null,
    post_context: lines('post_context'),
    in_app: asBoolean(given.in_app),
    vars: vars && cutter.object(vars, VARS, VARS.characters, `${path}.vars`),
    platform: text('platform', 64),
  };
};

/** Reads a text. Null if it is none or empty. */
export const textOf = (value: unknown, max: number, cutter: Cutter, path: string): string | null => {
  const text = asText(value);
  return text === null || text === '' ? null : cutter.text(text, max, path);
};
