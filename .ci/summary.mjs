// Prints the twenty slowest test files, each failure with its message and, in the last line, the numbers of passed, failed
// and skipped tests: `summary.mjs <results.json>`. Steps beside the tests come from the environment. Exits with 1 when
// anything failed.
import { readFileSync } from 'node:fs';
import { relative } from 'node:path';

const { STEPS_PASSED, STEPS_FAILED, TESTS_STATUS } = process.env;
const totals = { passed: Number(STEPS_PASSED), failed: Number(STEPS_FAILED), skipped: 0 };
/** The end of a log is what is kept of it: a message takes twenty lines at most. */
const shortened = (message) => message.split('\n').slice(0, 20).join('\n').slice(0, 2_000);
try {
  const results = JSON.parse(readFileSync(process.argv[2], 'utf8'));
  const seconds = ({ startTime, endTime }) => (endTime - startTime) / 1_000;
  console.log('\nThe slowest test files, in seconds:');
  for (const file of results.testResults.toSorted((a, b) => seconds(b) - seconds(a)).slice(0, 20)) {
    console.log(`${seconds(file).toFixed(1).padStart(8)}  ${relative(process.cwd(), file.name)}`);
  }
  for (const file of results.testResults.filter(({ status }) => status === 'failed')) {
    console.log(`\nFAILED ${relative(process.cwd(), file.name)}${file.message ? `\n${shortened(file.message)}` : ''}`);
    for (const { status, fullName, failureMessages } of file.assertionResults) {
      if (status === 'failed') console.log(`  ${fullName}\n${failureMessages.map(shortened).join('\n')}`);
    }
  }
  totals.passed += results.numPassedTests;
  totals.skipped += results.numPendingTests + results.numTodoTests;
  // A file that cannot be loaded, or an error outside of all tests, fails the run but is not a failed test.
  totals.failed += results.numFailedTests || Number(TESTS_STATUS !== '0');
} catch (error) {
  console.log(`\nThe test results cannot be read: ${error.message}`);
  totals.failed += 1;
}
console.log(`\n${totals.passed} passed, ${totals.failed} failed, ${totals.skipped} skipped`);
process.exit(totals.failed === 0 ? 0 : 1);
