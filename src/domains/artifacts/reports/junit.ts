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
  /** The text of the failure, the error or the reason to skip. Of a failure or error also what the test printed. */
  readonly system_output: string | null;
  /** The path of a file that belongs to a failure or error, such as a screenshot. Relative to the project. */
  readonly attachment: string | null;
}

/** Deeper documents are refused. */
const MAX_DEPTH = 50;
const MAX_CASES = 200_000;
const MAX_OUTPUT = 64 * 1024;
const MAX_ATTRIBUTE = 4_096;

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
 * Reads the test cases of JUnit reports, of one document after the other. Calls `found` for each.
 *
 * @throws ReportProblem if it is not well formed, has a document type, or is beyond the limits
 */
export const readJunit = async (content: AsyncIterable<Buffer>, found: (test: TestCase) => void): Promise<void> => {
  const decoder = new StringDecoder('utf8');
  const parser = sax.parser(true, { position: false });
  let depth = 0;
  let cases = 0;
  let problem: string | null = null;
  let test: OpenTest | null = null;
  /** What text in the current element belongs to. */
  let reading: 'outcome' | 'System Out' | 'System Err' | null = null;
  const fail = (message: string) => {
    problem ??= message;
  };
  parser.onerror = ({ message }) => fail(message.split('\n', 1)[0] ?? '');
  parser.ondoctype = () => fail('it has a document type');
  parser.onopentag = ({ name, attributes }) => {
    depth += 1;
    // The root of the next document. The parser itself expects one document, and would refuse text in this one.
    if (depth === 1) Reflect.set(parser, 'closedRoot', false);
    if (depth > MAX_DEPTH) fail(`it is nested deeper than ${MAX_DEPTH} levels`);
    // Without namespaces, attributes are texts.
    const texts: Record<string, string> = {};
    for (const [key, value] of Object.entries(attributes)) if (typeof value === 'string') texts[key] = value;
    if (name === 'testcase') {
      test = { attributes: texts, status: 'success', outcome: '', 'System Out': '', 'System Err': '' };
      return;
    }
    const status = STATUS_OF.get(name);
    if (test && status && test.status === 'success') {
      reading = 'outcome';
      test.status = status;
      test.outcome = (texts.message ?? '').slice(0, MAX_OUTPUT);
    } else if (status) {
      // Of several outcomes the first one counts.
      reading = null;
    } else reading = STREAMS.get(name) ?? reading;
  };
  const onText = (text: string) => {
    if (!reading || !test || text.trim() === '' || test[reading].length >= MAX_OUTPUT) return;
    const before = test[reading];
    test[reading] = `${before === '' ? '' : `${before}\n`}${text}`.slice(0, MAX_OUTPUT);
  };
  parser.ontext = onText;
  parser.oncdata = onText;
  parser.onclosetag = (name) => {
    depth -= 1;
    if (STATUS_OF.has(name) || STREAMS.has(name)) reading = null;
    if (name !== 'testcase' || !test) return;
    const { attributes, status } = test;
    const output = outputOf(test);
    const attachment = hasFailed(test) ? (ATTACHMENT.exec(test['System Out'])?.[1] ?? null) : null;
    test = null;
    cases += 1;
    if (cases > MAX_CASES) return fail(`it has more than ${MAX_CASES} test cases`);
    found({
      status,
      name: storable(attributes.name ?? '').slice(0, MAX_ATTRIBUTE),
      classname: attributes.classname === undefined ? null : storable(attributes.classname).slice(0, MAX_ATTRIBUTE),
      file: attributes.file === undefined ? null : storable(attributes.file).slice(0, MAX_ATTRIBUTE),
      execution_time: secondsOf(attributes.time),
      system_output: output === '' ? null : storable(output),
      attachment: attachment && storable(attachment).slice(0, MAX_ATTRIBUTE),
    });
  };
  for await (const chunk of content) {
    parser.write(withoutMarks(decoder.write(chunk)));
    if (problem !== null) throw new ReportProblem(problem);
  }
  parser.write(withoutMarks(decoder.end()));
  if (depth > 0) fail('it is cut off');
  if (problem !== null) throw new ReportProblem(problem);
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
