import type { Side } from './compare.ts';
import type { Http } from './http.ts';

/** Returns a side that sends the same GraphQL query repeatedly. */
export const graphqlSide = async (
  name: string,
  { pid, http, path, query, variables = {}, token }: GraphqlServer,
): Promise<Side & { readonly data: Record<string, unknown> }> => {
  const body = JSON.stringify({ query, variables });
  const headers = { 'content-type': 'application/json', ...(token ? { authorization: `Bearer ${token}` } : {}) };
  const { status, text } = await http.post(path, body, headers);
  const answer: { data?: Record<string, unknown>; errors?: unknown } = JSON.parse(text);
  if (status !== 200 || !answer.data || answer.errors) throw new Error(`${name} answered ${status}: ${text}`);
  const leastBytes = text.length * 0.9;
  return {
    name,
    pid,
    data: answer.data,
    send: () => http.drain({ method: 'POST', path, body, headers, leastBytes }),
  };
};

interface GraphqlServer {
  readonly pid: number;
  readonly http: Http;
  readonly path: string;
  readonly query: string;
  readonly variables?: Readonly<Record<string, unknown>>;
  readonly token?: string;
}

/** Returns all values of a field anywhere in a response, in order. */
export const valuesOf = (data: unknown, name: string): unknown[] => {
  const found: unknown[] = [];
  JSON.stringify(data, (key, value: unknown) => {
    if (key === name) found.push(value);
    return value;
  });
  return found;
};
