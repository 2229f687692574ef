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
  /** The text of the failure, the error or the reason to skip. */
  readonly system_output: string | null;
}

/** Deeper documents are refused. */
const MAX_DEPTH = 50;
const MAX_CASES = 200_000;
const MAX_OUTPUT = 64 * 1024;
const MAX_ATTRIBUTE = 4_096;

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
  let test: { attributes: Readonly<Record<string, string>>; status: TestStatus; output: string } | null = null;
  /** Whether text belongs to the output of the test case. */
  let reading = false;
  const fail = (message: string) => {
    problem ??= message;
  };
  parser.onerror = ({ message }) => fail(message.split('\n', 1)[0] ?? '');
  parser.ondoctype = () => fail('it has a document type');
  parser.onopentag = ({ name, attributes }) => {
    depth += 1;
    if (depth > MAX_DEPTH) fail(`it is nested deeper than ${MAX_DEPTH} levels`);
    // Without namespaces, attributes are texts.
    const texts: Record<string, string> = {};
    for (const [key, value] of Object.entries(attributes)) if (typeof value === 'string') texts[key] = value;
    if (name === 'testcase') {
      test = { attributes: texts, status: 'success', output: '' };
      return;
    }
    const status = STATUS_OF.get(name);
    if (!test || !status) return;
    // Of several outcomes the first one counts.
    reading = test.status === 'success';
    if (!reading) return;
    test.status = status;
    test.output = (texts.message ?? '').slice(0, MAX_OUTPUT);
  };
  const onText = (text: string) => {
    if (!reading || !test || text.trim() === '' || test.output.length >= MAX_OUTPUT) return;
    test.output = `${test.output === '' ? '' : `${test.output}\n`}${text}`.slice(0, MAX_OUTPUT);
  };
  parser.ontext = onText;
  parser.oncdata = onText;
  parser.onclosetag = (name) => {
    depth -= 1;
    if (STATUS_OF.has(name)) reading = false;
    if (name !== 'testcase' || !test) return;
    const { attributes, status, output } = test;
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
    });
  };
  for await (const chunk of content) {
    parser.write(decoder.write(chunk));
    if (problem !== null) throw new ReportProblem(problem);
  }
  parser.write(decoder.end());
  if (depth > 0) fail('it is cut off');
  if (problem !== null) throw new ReportProblem(problem);
};

const storable = (text: string): string => text.toWellFormed().replaceAll('\0', '');

const secondsOf = (text: string | undefined): number => {
  const seconds = Number((text ?? '0').replaceAll(',', ''));
  return Number.isFinite(seconds) && seconds >= 0 ? seconds : 0;
};
