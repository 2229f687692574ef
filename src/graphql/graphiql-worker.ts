import { parentPort } from 'node:worker_threads';
import { brotliCompressSync, constants, gzipSync } from 'node:zlib';
import { renderGraphiQL } from '@graphql-yoga/render-graphiql';
import { sessionScript } from './graphiql-session.ts';

// In a thread of its own: the page is 9 MB of text, which the hub's memory is spared.
const ENDPOINT = '/api/graphql';
const page = Buffer.from(
  renderGraphiQL({
    title: 'Millrace GraphQL explorer',
    endpoint: ENDPOINT,
    subscriptionsProtocol: 'SSE',
    // The page asks its own origin and nobody else.
    favicon: 'data:,',
    defaultQuery: '{\n  metadata {\n    version\n  }\n}\n',
  }).replace('<head>', () => `<head>${sessionScript(ENDPOINT)}`),
);
// The highest quality takes half a minute for 2 % less.
const br = brotliCompressSync(page, {
  params: { [constants.BROTLI_PARAM_QUALITY]: 5, [constants.BROTLI_PARAM_SIZE_HINT]: page.length },
});
parentPort?.postMessage({ br, gzip: gzipSync(page) });
