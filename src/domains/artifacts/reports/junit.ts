import { StringDecoder } from 'node:string_decoder';
import sax from 'sax';
import { ReportProblem } from './gzip.ts';

export type TestStatus = 'success' | 'failed' | 'skipped' | 'error';

export interface TestCase {
  readonly status: TestStatus;
  readonly name: string;
  readonly classname: string | null;
  readonly file: string | null;
  /** Seconds. */
  readonly execution_time: number;
  /**
   * The text of the failure, the error or the reason to skip. For a failure or error, the output of the test follows.
   */
  readonly system_output: string | null;
  /** The path of a file that belongs to a failure or error, such as a screenshot. Relative to the project. */
  readonly attachment: string | null;
}

/** Deeper documents are refused. */
const MAX_DEPTH = 50;
const MAX_CASES = 200_000;
const MAX_OUTPUT = 64 * 1024;
const MAX_ATTRIBUTE = 4_096;
/** Longer tags, comments and the like are refused: the parser needs about 30 bytes for each of their characters. */
const MAX_MARKUP = 1024 * 1024;
/** The parser hands out longer texts in parts. It looks at all lengths after each chunk, if it counts positions. */
Reflect.set(sax, 'MAX_BUFFER_LENGTH', MAX_MARKUP);

const STREAMS: ReadonlyMap<string, 'System Out' | 'System Err'> = new Map([
  ['system-out', 'System Out'],
  ['system-err', 'System Err'],
]);
/** How tests name a file in their output. */
const ATTACHMENT = /\[\[ATTACHMENT\|([^[\]|]+)\]\]/;

const STATUS_OF: ReadonlyMap<string, TestStatus> = new Map([
  ['failure', 'failed'],
  ['error', 'error'],
  ['skipped', 'skipped'],
]);

/**
 * Reads the test cases of JUnit reports, of one document after the other. Calls `found` for each. A document type is
 * skipped, and what it names is not loaded.
 *
 * @throws ReportProblem if it is not well formed, declares entities, or is beyond the limits
 */
export const readJunit = async (content: AsyncIterable<Buffer>, found: (test: TestCase) => void): Promise<void> => {
  const decoder = new StringDecoder('utf8');
  const reading = new JunitReading(found);
  for await (const chunk of content) reading.write(decoder.write(chunk));
  reading.end(decoder.end());
};

/** Reads documents as they arrive. */
class JunitReading {
  readonly #found: (test: TestCase) => void;
  readonly #parser = sax.parser(true, { position: true });
  #depth = 0;
  /** The characters in the attributes of the current tag. */
  #attributes = 0;
  #cases = 0;
  #problem: string | null = null;
  #test: OpenTest | null = null;
  /** The field that the text of the current element belongs to. */
  #target: 'outcome' | 'System Out' | 'System Err' | null = null;

  constructor(found: (test: TestCase) => void) {
    this.#found = found;
    this.#parser.onerror = ({ message }) => this.#fail(message.split('\n', 1)[0] ?? '');
    this.#parser.ondoctype = (text) => {
      if (/<!ENTITY/i.test(text)) this.#fail('its document type declares entities');
    };
    this.#parser.onattribute = ({ name, value }) => {
      this.#attributes += name.length + value.length;
      if (this.#attributes > MAX_MARKUP) this.#fail(`a tag is longer than ${MAX_MARKUP} characters`);
    };
    // Without namespaces, attributes are texts.
    this.#parser.onopentag = ({ name, attributes }) => this.#open(name, textsOf(attributes));
    this.#parser.ontext = (text) => this.#read(text);
    this.#parser.oncdata = (text) => this.#read(text);
    this.#parser.onclosetag = (name) => this.#close(name);
  }

  /** @throws ReportProblem */
  write(text: string): void {
    this.#parser.write(withoutMarks(text));
    if (this.#problem !== null) throw new ReportProblem(this.#problem);
  }

  /** @throws ReportProblem */
  end(text: string): void {
    this.#parser.write(withoutMarks(text));
    if (this.#depth > 0) this.#fail('it is cut off');
    // Finds a document that ends within its first tag or its document type.
    this.#parser.onerror = () => this.#fail('it is cut off');
    this.#parser.close();
    if (this.#problem !== null) throw new ReportProblem(this.#problem);
  }

  #fail(message: string): void {
    this.#problem ??= message;
  }

  #open(name: string, attributes: Readonly<Record<string, string>>): void {
    this.#depth += 1;
    this.#attributes = 0;
    // The parser itself expects one document, and would refuse text in the next one.
    if (this.#depth === 1) Reflect.set(this.#parser, 'closedRoot', false);
    if (this.#depth > MAX_DEPTH) this.#fail(`it is nested deeper than ${MAX_DEPTH} levels`);
    if (name === 'testcase') {
      this.#test = { attributes, status: 'success', outcome: '', 'System Out': '', 'System Err': '' };
      return;
    }
    const status = STATUS_OF.get(name);
    if (this.#test && status && this.#test.status === 'success') {
      this.#target = 'outcome';
      this.#test.status = status;
      this.#test.outcome = (attributes.message ?? '').slice(0, MAX_OUTPUT);
    } else if (status) {
      // The first of several outcomes counts.
      this.#target = null;
    } else this.#target = STREAMS.get(name) ?? this.#target;
  }

  #read(text: string): void {
    if (!this.#target || !this.#test || text.trim() === '' || this.#test[this.#target].length >= MAX_OUTPUT) return;
    const before = this.#test[this.#target];
    this.#test[this.#target] = `${before === '' ? '' : `${before}\n`}${text}`.slice(0, MAX_OUTPUT);
  }

  #close(name: string): void {
    this.#depth -= 1;
    if (this.#depth === 0) this.#expectDocument();
    if (STATUS_OF.has(name) || STREAMS.has(name)) this.#target = null;
    if (name !== 'testcase' || !this.#test) return;
    const test = this.#test;
    this.#test = null;
    this.#cases += 1;
    if (this.#cases > MAX_CASES) this.#fail(`it has more than ${MAX_CASES} test cases`);
    else this.#found(caseOf(test));
  }

  /** The next document may have a document type, too. */
  #expectDocument(): void {
    Reflect.set(this.#parser, 'sawRoot', false);
    Reflect.set(this.#parser, 'doctype', '');
  }
}

const textsOf = (attributes: Readonly<Record<string, unknown>>): Record<string, string> => {
  const texts: Record<string, string> = {};
  for (const [key, value] of Object.entries(attributes)) if (typeof value === 'string') texts[key] = value;
  return texts;
};

const caseOf = (test: OpenTest): TestCase => {
  const { attributes, status } = test;
  const output = outputOf(test);
  const attachment = hasFailed(test) ? (ATTACHMENT.exec(test['System Out'])?.[1] ?? null) : null;
  return {
    status,
    name: storable(attributes.name ?? '').slice(0, MAX_ATTRIBUTE),
    classname: attributes.classname === undefined ? null : storable(attributes.classname).slice(0, MAX_ATTRIBUTE),
    file: attributes.file === undefined ? null : storable(attributes.file).slice(0, MAX_ATTRIBUTE),
    execution_time: secondsOf(attributes.time),
    system_output: output === '' ? null : storable(output),
    attachment: attachment && storable(attachment).slice(0, MAX_ATTRIBUTE),
  };
};

/** A test case whose end has not been read. */
interface OpenTest {
  readonly attributes: Readonly<Record<string, string>>;
  status: TestStatus;
  outcome: string;
  'System Out': string;
  'System Err': string;
}

const hasFailed = ({ status }: OpenTest): boolean => status === 'failed' || status === 'error';

const outputOf = (test: OpenTest): string => {
  const printed = hasFailed(test) ? (['System Out', 'System Err'] as const).filter((name) => test[name] !== '') : [];
  return [test.outcome, ...printed.map((name) => `${name}:\n\n${test[name]}`)]
    .filter((part) => part !== '')
    .join('\n\n')
    .slice(0, MAX_OUTPUT);
};

/** Each document may begin with a mark of its byte order. */
const withoutMarks = (text: string): string => text.replaceAll('\uFEFF', '');

const storable = (text: string): string => text.toWellFormed().replaceAll('\0', '');

const secondsOf = (text: string | undefined): number => {
  const seconds = Number((text ?? '0').replaceAll(',', ''));
  return Number.isFinite(seconds) && seconds >= 0 ? seconds : 0;
};
