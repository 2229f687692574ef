import { GraphQLScalarType, Kind, valueFromASTUntyped } from 'graphql';
import { isoDate, isoTime, storableTime } from '#platform/time.ts';
import { badInput } from './errors.ts';

/** The TypeScript types of the scalars: Input is what resolvers receive, Output is what they return. */
export type PlainScalarTypes = {
  /** Resolvers return the value as stored in the row, and receive ISO 8601 text. */
  Time: { Input: string; Output: string };
  Date: { Input: string; Output: string };
  /** Integers beyond 32 bits, written as strings. */
  BigInt: { Input: number; Output: number | bigint | string };
  JSON: { Input: unknown; Output: unknown };
  /** Seconds. */
  Duration: { Input: number; Output: number };
  /** `#rrggbb` or a CSS name. */
  Color: { Input: string; Output: string };
  /** The id of a discussion, without the prefix of global ids. */
  DiscussionID: { Input: string; Output: string };
};

const refuse = (message: string): never => {
  throw badInput(message);
};

const text = (value: unknown, what: string): string =>
  typeof value === 'string' ? value : refuse(`${what} must be a string`);

const stringScalar = (
  name: string,
  description: string,
  write: (value: string) => string,
  read: (value: string) => string,
) => ({
  name,
  type: new GraphQLScalarType({
    name,
    description,
    coerceOutputValue: (value) => write(text(value, name)),
    coerceInputValue: (value) => read(text(value, name)),
    coerceInputLiteral: (node) => read(node.kind === Kind.STRING ? node.value : refuse(`${name} must be a string`)),
  }),
});

const TIME = /^\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?$/;

const readTime = (value: string): string => {
  const date = TIME.test(value)
    ? new Date(/(?:Z|[+-]\d\d:?\d\d)$/.test(value.slice(10)) || value.length === 10 ? value : `${value}Z`)
    : null;
  return (date && storableTime(date)) ?? refuse(`"${value.slice(0, 40)}" is not a valid ISO 8601 time`);
};

const readDate = (value: string): string => {
  const date = /^\d{4}-\d\d-\d\d$/.test(value) ? new Date(`${value}T00:00:00Z`) : null;
  const valid = date && storableTime(date)?.startsWith(value);
  return valid ? value : refuse(`"${value.slice(0, 40)}" is not a valid date: YYYY-MM-DD`);
};

const COLOR = /^(?:#(?:[0-9a-f]{3}|[0-9a-f]{6})|[a-z]{3,30})$/i;

const DISCUSSION = 'gid://gitlab/Discussion/';

/** Also accepts the id as REST shows it, and the names of upstream's subclasses. */
const readDiscussionId = (value: string): string => {
  const [, id] = /^(?:gid:\/\/gitlab\/(?:[A-Z][A-Za-z]*)?Discussion\/)?([\w-]{1,255})$/.exec(value) ?? [];
  return id ?? refuse(`"${value.slice(0, 100)}" is not the id of a discussion`);
};

const readInteger = (value: unknown): number => {
  const number = typeof value === 'string' && /^-?\d{1,16}$/.test(value) ? Number(value) : value;
  return typeof number === 'number' && Number.isSafeInteger(number)
    ? number
    : refuse('BigInt must be an integer, as a string');
};

const readSeconds = (value: unknown): number =>
  typeof value === 'number' && Number.isFinite(value) ? value : refuse('Duration must be a number of seconds');

const bigInt = new GraphQLScalarType({
  name: 'BigInt',
  description: 'An integer beyond 32 bits, written as a string.',
  coerceOutputValue: (value) => String(value),
  coerceInputValue: readInteger,
  coerceInputLiteral: (node) =>
    readInteger(node.kind === Kind.INT || node.kind === Kind.STRING ? node.value : undefined),
});

const json = new GraphQLScalarType({
  name: 'JSON',
  description: 'Any JSON value.',
  coerceOutputValue: (value) => value,
  coerceInputValue: (value) => value,
  coerceInputLiteral: (node) => valueFromASTUntyped(node),
});

const duration = new GraphQLScalarType({
  name: 'Duration',
  description: 'A length of time in seconds.',
  coerceOutputValue: readSeconds,
  coerceInputValue: readSeconds,
  coerceInputLiteral: (node) =>
    readSeconds(node.kind === Kind.INT || node.kind === Kind.FLOAT ? Number(node.value) : undefined),
});

export const plainScalars = [
  {
    ...stringScalar('Time', 'A time as ISO 8601 in UTC, such as `2026-11-21T01:42:33.123Z`.', isoTime, readTime),
    name: 'Time',
  },
  { ...stringScalar('Date', 'A day, `YYYY-MM-DD`.', isoDate, readDate), name: 'Date' },
  {
    ...stringScalar(
      'Color',
      'A colour: `#rrggbb` or a CSS name.',
      (v) => v,
      (v) => (COLOR.test(v) ? v : refuse('Color must be #rrggbb or a CSS colour name')),
    ),
    name: 'Color',
  },
  {
    ...stringScalar(
      'DiscussionID',
      `The global id of a discussion: \`${DISCUSSION}6a9c1750b37d513a43987b574953fceb50b03ce7\`.`,
      (id) => `${DISCUSSION}${id}`,
      readDiscussionId,
    ),
    name: 'DiscussionID',
  },
  { name: 'BigInt', type: bigInt },
  { name: 'JSON', type: json },
  { name: 'Duration', type: duration },
] as const;
