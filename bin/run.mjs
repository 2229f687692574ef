// Runs a TypeScript entry point: `node bin/run.mjs src/main.ts [arguments]`. On Linux, npm installs the required Node.
// This file tells everyone else, in syntax that an older Node can parse.
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';

const NEEDED = 24;
const major = Number(process.versions.node.split('.')[0]);
if (major < NEEDED) {
  console.error(`Millrace needs Node ${NEEDED} or later, and this is ${process.version}.`);
  console.error('On Linux (x64, arm64) start it through npm: npm ci && npm start. Elsewhere install Node 24.');
  process.exit(1);
}
// The same folder as in src/main.ts.
const { enableCompileCache } = await import('node:module');
enableCompileCache(resolve(import.meta.dirname, '../node_modules/.cache/millrace'));
const [entry] = process.argv.splice(2, 1);
await import(pathToFileURL(resolve(import.meta.dirname, '..', entry)).href);
