import { ConfigError } from './config-error.ts';
import { compileRegex } from './regular-expressions.ts';
import { fromJson, isList, isMapping, isScalar, toJson, type Value } from './values.ts';
import { expandText } from './variables.ts';

const MAX_INPUTS = 100;
const MAX_FUNCTIONS = 3;
/** The characters that blocks within texts may add to a file. */
const MAX_ADDED = 2 * 1024 * 1024;
const TYPES = ['string', 'number', 'boolean', 'array'] as const;
const SPEC_KEYS = ['default', 'description', 'options', 'regex', 'type'];
const BLOCK = /\$\[\[([^\]]{0,1000})\]\]/g;

type InputType = (typeof TYPES)[number];

/**
 * Returns the values of a file's inputs: those given, else the defaults. With `texts`, a text that was given is read as
 * the type that the input declares: push options and forms have nothing but texts.
 *
 * @throws ConfigError for missing, unknown and invalid values
 */
export const readInputs = (
  spec: Value,
  given: Readonly<Record<string, unknown>>,
  { texts = false }: { readonly texts?: boolean | undefined } = {},
): ReadonlyMap<string, Value> => {
  const hash = isMapping(spec) ? spec : spec === null ? new Map<string, Value>() : null;
  if (!hash) throw new ConfigError('header:spec config should be a hash');
  const unknownKeys = [...hash.keys()].filter((key) => key !== 'inputs');
  if (unknownKeys.length > 0)
    throw new ConfigError(`header:spec config contains unknown keys: ${unknownKeys.join(', ')}`);
  const inputs = hash.get('inputs') ?? new Map<string, Value>();
  if (!isMapping(inputs)) throw new ConfigError('header:spec:inputs config should be a hash');
  if (inputs.size > MAX_INPUTS)
    throw new ConfigError(`header:spec:inputs has too many inputs (maximum is ${MAX_INPUTS})`);
  const unknown = Object.keys(given).filter((name) => !inputs.has(name));
  if (unknown.length > 0) throw new ConfigError(`unknown input arguments: ${unknown.join(', ')}`);
  const values = new Map<string, Value>();
  for (const [name, declaration] of inputs) {
    const value = Object.hasOwn(given, name) ? fromJson(given[name]) : undefined;
    values.set(name, readInput(name, declaration, value, texts));
  }
  return values;
};

const readInput = (name: string, declaration: Value, sent: Value | undefined, texts: boolean): Value => {
  const place = `header:spec:inputs:${name}`;
  const hash = declaration === null ? new Map<string, Value>() : declaration;
  if (!isMapping(hash)) throw new ConfigError(`${place} config should be a hash`);
  if (hash.has('rules')) throw new ConfigError(`${place}:rules is not supported`);
  const unknown = [...hash.keys()].filter((key) => !SPEC_KEYS.includes(key));
  if (unknown.length > 0) throw new ConfigError(`${place} config contains unknown keys: ${unknown.join(', ')}`);
  const type = TYPES.find((each) => each === (hash.get('type') ?? 'string'));
  if (!type) throw new ConfigError(`${place} input type unknown value: ${String(toJson(hash.get('type') ?? null))}`);
  const given = texts && typeof sent === 'string' ? readText(sent, type) : sent;
  const value = given ?? hash.get('default');
  if (value === undefined) throw new ConfigError(`\`${name}\` input: required value has not been provided`);
  const kind = given === undefined ? 'default' : 'provided';
  if (!hasType(value, type)) throw new ConfigError(`\`${name}\` input: ${kind} value is not ${article(type)}`);
  const options = hash.get('options') ?? null;
  if (isList(options) && !options.some((each) => String(each) === String(value))) {
    throw new ConfigError(
      `\`${name}\` input: \`${String(value).slice(0, 200)}\` cannot be used because it is not in the list of allowed options`,
    );
  }
  checkPattern(name, hash.get('regex') ?? null, value, kind);
  return value;
};

const readText = (text: string, type: InputType): Value => {
  if (type === 'number') return /^-?\d+(?:\.\d+)?$/.test(text) ? Number(text) : text;
  if (type === 'boolean') return text === 'true' || (text === 'false' ? false : text);
  if (type === 'string') return text;
  try {
    return fromJson(JSON.parse(text));
  } catch {
    return text;
  }
};

const checkPattern = (name: string, regex: Value, value: Value, kind: string): void => {
  if (regex === null) return;
  const test = typeof regex === 'string' ? compileRegex(regex.startsWith('/') ? regex : `/${regex}/`) : null;
  if (!test) throw new ConfigError(`\`${name}\` input: invalid regular expression`);
  if (typeof value !== 'string' || !test(value)) {
    throw new ConfigError(`\`${name}\` input: ${kind} value does not match required RegEx pattern`);
  }
};

const article = (type: InputType): string => (type === 'array' ? 'an array' : `a ${type}`);

const hasType = (value: Value, type: InputType): boolean =>
  type === 'array' ? isList(value) : type === 'string' ? typeof value === 'string' : typeof value === type;

export interface Interpolation {
  readonly inputs: ReadonlyMap<string, Value>;
  /** For the function `expand_vars`. */
  readonly valueFor: (name: string) => string | null;
  /** Whether the value is masked. It must not be written into the file, which people can read. */
  readonly isMasked: (name: string) => boolean;
}

/** Replaces `$[[ inputs.x ]]` in keys and values. Alone in a value it keeps the type of the input. @throws ConfigError */
export const interpolate = (value: Value, context: Interpolation): Value => {
  let left = MAX_ADDED;
  const spend = (characters: number): void => {
    left -= characters;
    if (left < 0) throw new ConfigError('The parsed YAML is too big');
  };
  return interpolated(value, { ...context, spend });
};

interface Interpolating extends Interpolation {
  /** Counts the characters of texts that are made. @throws ConfigError if they are too many */
  readonly spend: (characters: number) => void;
}

const interpolated = (value: Value, context: Interpolating): Value => {
  if (typeof value === 'string') return interpolateText(value, context);
  if (isList(value)) return value.map((each) => interpolated(each, context));
  if (!isMapping(value)) return value;
  return new Map(
    [...value].map(([key, each]) => [String(interpolateText(key, context)), interpolated(each, context)] as const),
  );
};

/** Returns whether the text has a block to replace. */
const hasBlocks = (text: string): boolean => text.includes('$[[');

const interpolateText = (text: string, context: Interpolating): Value => {
  if (!hasBlocks(text)) return text;
  const whole = /^\$\[\[([^\]]{0,1000})\]\]$/.exec(text.trim());
  if (whole && text.trim().indexOf('$[[', 1) < 0) return blockValue(whole[1] ?? '', context);
  return text.replaceAll(BLOCK, (_, block: string) => {
    const value = blockValue(block, context);
    const written = isScalar(value) ? String(value) : JSON.stringify(toJson(value));
    context.spend(written.length);
    return written;
  });
};

const blockValue = (block: string, context: Interpolating): Value => {
  const [access = '', ...functions] = block.split('|').map((part) => part.trim());
  if (functions.length > MAX_FUNCTIONS) throw new ConfigError('too many functions in interpolation block');
  const name = /^inputs\.([\w-]+)$/.exec(access)?.[1];
  if (name === undefined) throw new ConfigError(`unknown interpolation provided: \`${access.slice(0, 100)}\``);
  const value = context.inputs.get(name);
  if (value === undefined) throw new ConfigError(`unknown interpolation key: \`${name}\``);
  return functions.reduce<Value>((before, each) => applyFunction(each, before, context), value);
};

const applyFunction = (call: string, value: Value, context: Interpolating): Value => {
  const text = isScalar(value) ? String(value) : null;
  if (text === null) throw new ConfigError(`error in \`${call}\` function: invalid input type`);
  if (call === 'expand_vars') {
    const expanded = expandText(text, (name) => {
      if (context.isMasked(name))
        throw new ConfigError('variable expansion error: masked variables cannot be expanded');
      return context.valueFor(name) ?? undefined;
    });
    context.spend(expanded.length);
    return expanded;
  }
  if (call === 'posix_escape') {
    context.spend(text.length);
    return text === '' ? "''" : text.replaceAll(/[^\w\-.,:+/@\n]/g, '\\$&').replaceAll('\n', "'\n'");
  }
  const cut = /^truncate\(\s*(\d{1,9})\s*,\s*(\d{1,9})\s*\)$/.exec(call);
  if (cut) return text.slice(Number(cut[1]), Number(cut[1]) + Number(cut[2]));
  throw new ConfigError(
    `no function matching \`${call.slice(0, 100)}\`: check that the function name, arguments, and types are correct`,
  );
};
