// Compares schema/openapi.json with the specification by the tools beside the repository (../shared/tools), and expects
// the counts below: every operation, parameter, response attribute and status is declared. Without the tools it skips.
import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const tools = join(root, '../shared/tools');

/** How the last line of each tool must start. */
const EXPECTED = {
  'contract-coverage.mjs': 'contract coverage: 111 of 111 endpoints of the spec declared',
  'contract-depth.mjs': '644 of 644 params, 2579 of 2579 response attributes, 44 of 44 statuses',
};

if (!existsSync(tools)) {
  console.log('../shared/tools is not there: the contract is not checked');
  process.exit(0);
}
for (const [tool, expected] of Object.entries(EXPECTED)) {
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [join(tools, tool), join(root, 'schema/openapi.json')],
    {
      encoding: 'utf8',
    },
  );
  const last = stdout.trimEnd().split('\n').at(-1) ?? '';
  console.log(`${tool}: ${last}`);
  if (status === 0 && last.startsWith(expected)) continue;
  console.error(`${stdout}${stderr}Expected from ${tool}: ${expected}`);
  process.exitCode = 1;
}
