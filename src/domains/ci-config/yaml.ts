import {
  type CollectionTag,
  Composer,
  type CST,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  Lexer,
  LineCounter,
  type Pair,
  type ParsedNode,
  Parser,
  stringify,
  type Tags,
  YAMLSeq,
} from 'yaml';
import { ConfigError } from './config-error.ts';
import { isMapping, isTooLong, Reference, type Value } from './values.ts';

/** Reference: ci §1. */
const MAX_BYTES = 2 * 1024 * 1024;
const MAX_DEPTH = 100;
/** Nodes of a document after aliases are replaced. */
const MAX_NODES = 200_000;
const TOO_BIG = 'The parsed YAML is too big';

/** Words and signs of a document. They determine the time of parsing. */
const MAX_LEXEMES = 1_000_000;

const REFERENCE_TAG = '!reference';
const referenceTag: CollectionTag = { tag: REFERENCE_TAG, collection: 'seq', nodeClass: YAMLSeq };
/** Tags of YAML 1.1 that no CI file needs. Plain dates stay texts, and `<<` is resolved here. */
const OMITTED_TAGS: ReadonlySet<string> = new Set(['binary', 'timestamp', 'omap', 'pairs', 'set', 'merge']);
const customTags = (tags: Tags): Tags => [
  ...tags.filter((tag) => typeof tag === 'string' || !OMITTED_TAGS.has(tag.tag.replace(/^.*:/, ''))),
  referenceTag,
];

export interface ParsedYaml {
  /** One for each document. */
  readonly documents: readonly Value[];
  readonly warnings: readonly string[];
}

/**
 * Parses YAML 1.1, as CI files are written (`on` is a boolean, `010` is 8), with aliases, merge keys and `!reference`.
 *
 * @throws ConfigError with the line and column of the mistake
 */
export const parseYaml = (text: string): ParsedYaml => {
  if (Buffer.byteLength(text) > MAX_BYTES) throw new ConfigError(TOO_BIG);
  const lines = new LineCounter();
  const composer = new Composer<ParsedNode>({
    version: '1.1',
    customTags,
    uniqueKeys: false,
    keepSourceTokens: false,
    prettyErrors: false,
    logLevel: 'silent',
  });
  const documents: Value[] = [];
  const warnings: string[] = [];
  try {
    for (const document of composer.compose(boundedTokens(text, lines), true, text.length)) {
      const [problem] = [...document.errors, ...document.warnings];
      if (problem) throw new ConfigError(`${problem.message} ${placeOf(lines, problem.pos[0])}`);
      const value = new Conversion(lines, warnings).convert(document.contents);
      // Messages between threads repeat what aliases share.
      if (isTooLong(value)) throw new ConfigError(TOO_BIG);
      documents.push(value);
    }
  } catch (error) {
    // Deep input may exhaust the stack of the library in spite of the check.
    if (error instanceof RangeError) throw new ConfigError(TOO_BIG);
    throw error;
  }
  return { documents, warnings };
};

/** Writes the value as YAML. */
export const writeYaml = (value: Value): string =>
  stringify(value, { aliasDuplicateObjects: false, lineWidth: 0, version: '1.1', customTags });

const placeOf = (lines: LineCounter, offset: number): string => {
  const { line, col } = lines.linePos(offset);
  return `at line ${line} column ${col}`;
};

/** Yields the tokens of the text. @throws ConfigError before the library recurses too deep or works too long */
function* boundedTokens(text: string, lines: LineCounter): Generator<CST.Token> {
  lines.addNewLine(0);
  const parser = new Parser(lines.addNewLine);
  let lexemes = 0;
  for (const lexeme of new Lexer().lex(text)) {
    yield* parser.next(lexeme);
    // The document itself is on the stack, too.
    if (++lexemes > MAX_LEXEMES || parser.stack.length > MAX_DEPTH + 1) throw new ConfigError(TOO_BIG);
  }
  yield* parser.end();
}

interface Converted {
  readonly value: Value;
  /** The number of nodes, with aliases replaced. */
  readonly nodes: number;
  readonly depth: number;
}

/** Turns the nodes of a document into values. Aliases share their value, so counting them costs nothing. */
class Conversion {
  readonly #anchors = new Map<string, Converted>();
  readonly #lines: LineCounter;
  readonly #warnings: string[];

  constructor(lines: LineCounter, warnings: string[]) {
    this.#lines = lines;
    this.#warnings = warnings;
  }

  convert(node: ParsedNode | null): Value {
    return this.#node(node).value;
  }

  #node(node: ParsedNode | null | undefined): Converted {
    if (!node) return { value: null, nodes: 1, depth: 0 };
    if (isAlias(node)) {
      const found = this.#anchors.get(node.source);
      if (!found) throw this.#error(`Unknown alias: ${node.source}`, node);
      return found;
    }
    const converted = this.#content(node);
    if (converted.nodes > MAX_NODES || converted.depth > MAX_DEPTH) throw new ConfigError(TOO_BIG);
    if (node.anchor) this.#anchors.set(node.anchor, converted);
    return converted;
  }

  #content(node: ParsedNode): Converted {
    if (isMap(node)) return this.#mapping(node.items);
    if (isSeq(node)) {
      const items = node.items.map((item) => this.#node(item));
      const value = items.map((item) => item.value);
      return sumOf(items, node.tag === REFERENCE_TAG ? new Reference(value) : value);
    }
    return { value: isScalar(node) ? scalarValue(node.value, node.source) : null, nodes: 1, depth: 0 };
  }

  #mapping(pairs: readonly Pair<ParsedNode, ParsedNode | null>[]): Converted {
    const own = new Map<string, Value>();
    const merged = new Map<string, Value>();
    const parts: Converted[] = [];
    for (const { key, value } of pairs) {
      if (key && !isScalar(key)) throw this.#error('Keys must be texts', key);
      const name = key ? (typeof key.value === 'string' ? key.value : (key.source ?? '')) : '';
      const converted = this.#node(value);
      parts.push(converted);
      if (name === '<<' && key?.type === 'PLAIN') {
        this.#merge(merged, converted.value, key);
        continue;
      }
      if (own.has(name) && key) {
        this.#warnings.push(
          `the key ${name} is given twice ${placeOf(this.#lines, key.range[0])}; the last one counts`,
        );
      }
      own.set(name, converted.value);
    }
    return sumOf(parts, merged.size === 0 ? own : new Map([...merged, ...own]));
  }

  /** If several mappings have a key, the first one counts. */
  #merge(into: Map<string, Value>, value: Value, key: ParsedNode): void {
    for (const source of Array.isArray(value) ? value : [value]) {
      if (!isMapping(source)) throw this.#error('Only mappings can be merged with <<', key);
      for (const [name, each] of source) if (!into.has(name)) into.set(name, each);
    }
  }

  #error(message: string, node: ParsedNode): ConfigError {
    return new ConfigError(`${message} ${placeOf(this.#lines, node.range[0])}`);
  }
}

const sumOf = (parts: readonly Converted[], value: Value): Converted => {
  let nodes = 1;
  let depth = 0;
  for (const part of parts) {
    nodes += part.nodes;
    depth = Math.max(depth, part.depth);
  }
  return { value, nodes, depth: depth + 1 };
};

/**
 * Numbers that are not written like a usual number stay texts: `1.0`, `1e3`, `08`, `12345678901234567890`. So do `y` and
 * `n`, which only YAML 1.1 itself calls booleans.
 */
const scalarValue = (value: unknown, source: string | undefined): Value => {
  if (typeof value === 'boolean' && source?.length === 1) return source;
  if (typeof value === 'string' || typeof value === 'boolean' || value === null) return value;
  if (typeof value !== 'number') return source ?? null;
  if (source !== undefined && UNUSUAL_NUMBER.test(source)) return source;
  const isExact = Number.isInteger(value) ? Number.isSafeInteger(value) && !source?.includes('.') : true;
  return isExact && Number.isFinite(value) ? value : (source ?? String(value));
};

const UNUSUAL_NUMBER = /^[-+]?(?:0\d*[89]|(?!0x)[\d._]+e)/i;
