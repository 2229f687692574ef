import { createHash } from 'node:crypto';
import { z } from 'zod';

/** Other servers leave out what is null. */
const orNull = <T extends z.ZodType>(schema: T) => schema.nullish().transform((value) => value ?? null);

/** One end of a range of lines. */
const rangeEnd = z.object({
  line_code: z.string(),
  type: orNull(z.string()),
  old_line: orNull(z.int32()),
  new_line: orNull(z.int32()),
});
export type RangeEnd = z.output<typeof rangeEnd>;

const place = {
  base_sha: z.string().nullable(),
  start_sha: z.string().nullable(),
  head_sha: z.string(),
  old_path: z.string(),
  new_path: z.string(),
};

const text = z.object({
  ...place,
  position_type: z.literal('text'),
  old_line: orNull(z.int32()),
  new_line: orNull(z.int32()),
  line_range: z.object({ start: rangeEnd, end: rangeEnd }).nullish(),
});

const pixels = z
  .number()
  .min(0)
  .max(2 ** 31 - 1)
  .transform(Math.round);

const image = z.object({
  ...place,
  position_type: z.literal('image'),
  width: pixels,
  height: pixels,
  x: pixels,
  y: pixels,
});

const file = z.object({ ...place, position_type: z.literal('file') });

const position = z.discriminatedUnion('position_type', [text, image, file]);

/** The place in the diff that a comment is on, as it is stored and shown. */
export type Position = z.output<typeof position>;
export type TextPosition = z.output<typeof text>;

export const POSITION_TYPES = ['text', 'image', 'file'] as const;

/** A position that a caller sent. */
export interface GivenPosition {
  readonly position_type: (typeof POSITION_TYPES)[number];
  readonly base_sha: string;
  readonly start_sha: string;
  readonly head_sha: string;
  readonly old_path?: string | null | undefined;
  readonly new_path?: string | null | undefined;
  readonly old_line?: number | null | undefined;
  readonly new_line?: number | null | undefined;
  readonly line_range?: GivenRange | null | undefined;
  readonly width?: number | null | undefined;
  readonly height?: number | null | undefined;
  readonly x?: number | null | undefined;
  readonly y?: number | null | undefined;
}

export interface GivenRange {
  readonly start: GivenRangeEnd;
  readonly end: GivenRangeEnd;
}

export interface GivenRangeEnd {
  readonly line_code?: string | null | undefined;
  readonly type?: string | null | undefined;
  readonly old_line?: number | null | undefined;
  readonly new_line?: number | null | undefined;
}

/** Reads a stored position. Null if it has another form: imports bring what other servers have written. */
export const readPosition = (stored: unknown): Position | null => position.nullable().catch(null).parse(stored);

/** Names a line of a diff: `sha1(path)_old_new`. */
export const lineCode = (path: string, oldLine: number, newLine: number): string =>
  `${createHash('sha1').update(path).digest('hex')}_${oldLine}_${newLine}`;
