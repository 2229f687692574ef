import { parentPort } from 'node:worker_threads';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { renderGraphiQL } from '@graphql-yoga/render-graphiql';
import { sessionScript } from './graphiql-session.ts';

// Runs in a worker thread so that the 9 MB page does not stay in the hub's memory.
const ENDPOINT = '/api/graphql';
const page = Buffer.from(
  renderGraphiQL({
    title: 'Millrace GraphQL explorer',
    endpoint: ENDPOINT,
    subscriptionsProtocol: 'SSE',
    // A data URL, because the page loads nothing from other origins.
    favicon: 'data:,',
    defaultQuery: '{\n  metadata {\n    version\n  }\n}\n',
  }).replace('<head>', () => `<head>${sessionScript(ENDPOINT)}`),
);
// The highest quality takes half a minute and saves only 2 %.
const br = brotliCompressSync(page, {
  params: { [constants.BROTLI_PARAM_QUALITY]: 5, [constants.BROTLI_PARAM_SIZE_HINT]: page.length },
});
parentPort?.postMessage({ br, gzip: gzipSync(page) });
