import { GraphQLError } from 'graphql';
import { isObject, JsonLimitError, parseJson } from '#platform/values/json.ts';
import { isStorable } from '#platform/values/storable.ts';
import { type GraphqlParams, Refused } from './engine.ts';
import { LIMITS } from './limits.ts';

const refuse = (message: string) =>
  new Refused([new GraphQLError(message, { extensions: { code: 'BAD_REQUEST' } })], 400);

/**
 * Clients that send the hash of a query first (automatic persisted queries) send its text after this error. Status 200,
 * as other servers use, because clients may not read the errors of a 400.
 */
const persistedQueriesUnsupported = () =>
  new Refused(
    [
      new GraphQLError('PersistedQueryNotSupported', {
        extensions: { code: 'PERSISTED_QUERY_NOT_SUPPORTED' },
      }),
    ],
    200,
  );

/** Checks the form of one request: `{ query, operationName?, variables?, extensions? }`. */
export const readParams = (sent: unknown): GraphqlParams | Refused => {
  if (!isObject(sent)) return refuse('The request must be a JSON object, or an array of such objects');
  const { query, operationName = null, variables = null, extensions = null } = sent;
  if (query === undefined || query === null || query === '') {
    if (isObject(extensions) && isObject(extensions.persistedQuery)) return persistedQueriesUnsupported();
    return refuse('Must provide query string.');
  }
  if (typeof query !== 'string') return refuse('`query` must be a string');
  if (operationName !== null && typeof operationName !== 'string') return refuse('`operationName` must be a string');
  if (variables !== null && !isObject(variables)) return refuse('`variables` must be an object');
  if (extensions !== null && !isObject(extensions)) return refuse('`extensions` must be an object');
  if (NUL_LITERAL.test(query) || !holdsStorable(variables))
    return refuse('A string contains a character that cannot be stored');
  return { query, operationName: operationName === '' ? null : operationName, variables: variables ?? {} };
};

/** NUL as a character or as an escape in a string literal. The parser itself refuses lone surrogates. */
const NUL_LITERAL = /\0|\\u(?:0000|\{0+\})/;

/** Returns whether Postgres can store every string in the value. */
const holdsStorable = (value: unknown): boolean => {
  // Iterative, because clients may nest values arbitrarily deep.
  const left = [value];
  for (let next = left.pop(); next !== undefined; next = left.pop()) {
    if (typeof next === 'string' && !isStorable(next)) return false;
    if (Array.isArray(next)) for (const each of next) left.push(each);
    else if (typeof next === 'object' && next !== null)
      for (const [key, each] of Object.entries(next)) left.push(key, each);
  }
  return true;
};

/** Reads a JSON body: one request or a batch of them. */
export const readBody = (body: Buffer): GraphqlParams | Refused | (GraphqlParams | Refused)[] => {
  const sent = readJson(body.toString('utf8'), 'The body');
  if (sent instanceof Refused) return sent;
  if (!Array.isArray(sent)) return readParams(sent);
  if (sent.length === 0) return refuse('The batch is empty');
  if (sent.length > LIMITS.batch) return refuse(`The batch exceeds the limit of ${LIMITS.batch} operations`);
  return sent.map(readParams);
};

/** Reads the parameters of a GET request, where `variables` and `extensions` are JSON texts. */
export const readQuery = (search: URLSearchParams): GraphqlParams | Refused => {
  const sent: Record<string, unknown> = {};
  for (const name of ['query', 'operationName', 'variables', 'extensions']) {
    const text = search.get(name);
    if (text === null || (text === '' && name !== 'query')) continue;
    sent[name] = name === 'variables' || name === 'extensions' ? readJson(text, `\`${name}\``) : text;
    if (sent[name] instanceof Refused) return sent[name];
  }
  return readParams(sent);
};

const readJson = (text: string, what: string): unknown => {
  try {
    return parseJson(text, LIMITS.json);
  } catch (error) {
    return refuse(`${what} ${error instanceof JsonLimitError ? error.message : 'is not valid JSON'}`);
  }
};
