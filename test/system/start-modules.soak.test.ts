import { execFile } from 'node:child_process';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';

const SOURCES = join(import.meta.dirname, '../../src');

/** Prints the URL of every module that is loaded with these files, one after the other. */
const programFor = (files: readonly string[]) => `
  const { registerHooks } = require('node:module');
  const urls = [];
  registerHooks({ load: (url, context, next) => { urls.push(url); return next(url, context); } });
  ${JSON.stringify(files.map((file) => join(SOURCES, file)))}
    .reduce((before, file) => before.then(() => import(file)), Promise.resolve())
    .then(() => process.stdout.write(JSON.stringify(urls), () => process.exit(0)));`;

const modulesOf = async (...files: readonly string[]): Promise<string[]> => {
  const { stdout } = await promisify(execFile)(process.execPath, ['--eval', programFor(files)], {
    maxBuffer: 16 * 1024 * 1024,
    env: { ...process.env, NODE_OPTIONS: '' },
  });
  const urls: unknown = JSON.parse(stdout);
  if (!Array.isArray(urls)) throw new Error('no list of modules was printed');
  return urls.map(String).filter((url) => !url.startsWith('node:'));
};

/** Packages that only some requests and jobs need. They are imported when the first one comes. */
const LATER = [
  '@aws-sdk/client-s3',
  '@graphql-yoga/render-graphiql',
  '@node-saml/node-saml',
  'file-type',
  'graphql-yoga',
  'image-size',
  'jose',
  'linguist-languages',
  'markdown-it',
  'nodemailer',
  'qrcode',
  'sanitize-html',
  'tar-stream',
  'undici',
  'yaml',
];

/** Start time and idle memory grow with this number. Raise it only for modules that every hub needs. */
const MOST_MODULES = 2_470;

it('starts without the packages that only some requests need', async () => {
  const urls = await modulesOf('app/serve.ts', 'app/build.ts');
  expect(LATER.filter((name) => urls.some((url) => url.includes(`/node_modules/${name}/`)))).toEqual([]);
  expect(urls.length).toBeGreaterThan(500);
  expect(urls.length).toBeLessThan(MOST_MODULES);
});

it('reads error reports in a thread that loads little, because each module takes memory a second time', async () => {
  const urls = await modulesOf('domains/error-ingest/digest/read.ts');
  expect(urls.filter((url) => url.includes('/node_modules/'))).toEqual([]);
  expect(urls.length).toBeLessThan(50);
});
