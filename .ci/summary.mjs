// Prints the twenty slowest test files, each failure with its message and, in the last line, the numbers of passed, failed
// and skipped tests: `summary.mjs <results.json>`. Steps beside the tests come from the environment. Exits with 1 when
// anything failed.
import { readFileSync } from 'node:fs';

const { STEPS_PASSED, STEPS_FAILED, TESTS_STATUS } = process.env;
const totals = { passed: Number(STEPS_PASSED), failed: Number(STEPS_FAILED), skipped: 0 };
/** The end of a log is what is kept of it: a message takes twenty lines at most. */
const shortened = (message) => message.split('\n').slice(0, 20).join('\n').slice(0, 2_000);
try {
  const { files, unhandled, passed, failed, skipped } = JSON.parse(readFileSync(process.argv[2], 'utf8'));
  console.log('\nThe slowest test files, in seconds:');
  for (const { path, seconds } of files.toSorted((a, b) => b.seconds - a.seconds).slice(0, 20)) {
    console.log(`${seconds.toFixed(1).padStart(8)}  ${path}`);
  }
  for (const { path, failures } of files) {
    for (const { name, errors } of failures)
      console.log(`\nFAILED ${path}: ${name}\n${errors.map(shortened).join('\n')}`);
  }
  for (const error of unhandled) console.log(`\nFAILED outside of all files\n${shortened(error)}`);
  totals.passed += passed;
  totals.skipped += skipped;
  // The run also fails for what no test reaches.
  totals.failed += failed || Number(TESTS_STATUS !== '0');
} catch (error) {
  console.log(`\nThe test results cannot be read: ${error.message}`);
  totals.failed += 1;
}
console.log(`\n${totals.passed} passed, ${totals.failed} failed, ${totals.skipped} skipped`);
process.exit(totals.failed === 0 ? 0 : 1);
