/** The answer to a REST request. */
export interface Answer<T = unknown> {
  readonly status: number;
  readonly headers: Headers;
  /** The parsed JSON, or the text of any other content type. */
  // biome-ignore lint/suspicious/noExplicitAny: a test looks into bodies of every shape, and fails where they differ.
  readonly body: T extends unknown ? any : T;
}

interface GraphqlProblem {
  readonly message: string;
  readonly path?: readonly (string | number)[];
  readonly extensions?: { readonly code?: string };
}

export interface GraphqlAnswer {
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  readonly data: any;
  readonly errors?: readonly GraphqlProblem[];
}

type Body = Record<string, unknown> | readonly unknown[] | FormData | URLSearchParams;

/**
 * Talks to the hub over HTTP with a token, as a user's tools do.
 * Paths are below `/api/v4` unless they start with `/-/` or `/api/`. Whole URLs are taken as they are.
 */
export class Client {
  readonly #url: string;
  readonly #token: () => Promise<string | null>;

  constructor(url: string, token: () => Promise<string | null>) {
    this.#url = url;
    this.#token = token;
  }

  get(path: string, headers?: Record<string, string>): Promise<Answer> {
    return this.request('GET', path, undefined, headers);
  }

  head(path: string): Promise<Answer> {
    return this.request('HEAD', path);
  }

  post(path: string, body?: Body, headers?: Record<string, string>): Promise<Answer> {
    return this.request('POST', path, body, headers);
  }

  put(path: string, body?: Body, headers?: Record<string, string>): Promise<Answer> {
    return this.request('PUT', path, body, headers);
  }

  patch(path: string, body?: Body): Promise<Answer> {
    return this.request('PATCH', path, body);
  }

  delete(path: string, body?: Body): Promise<Answer> {
    return this.request('DELETE', path, body);
  }

  async request(method: string, path: string, body?: Body, headers: Record<string, string> = {}): Promise<Answer> {
    const response = await this.fetch(method, path, body, headers);
    const text = await response.text();
    const isJson = (response.headers.get('content-type') ?? '').includes('json');
    return {
      status: response.status,
      headers: response.headers,
      body: isJson && text !== '' ? JSON.parse(text) : text,
    };
  }

  /** Returns the raw response, for downloads and streams. */
  async fetch(method: string, path: string, body?: Body, headers: Record<string, string> = {}): Promise<Response> {
    const token = await this.#token();
    const isForm = body instanceof FormData || body instanceof URLSearchParams;
    const below = path.startsWith('/-/') || path.startsWith('/api/') ? path : `/api/v4${path}`;
    return fetch(path.startsWith(this.#url) ? path : this.#url + below, {
      method,
      redirect: 'manual',
      headers: {
        ...(token === null ? {} : { 'private-token': token }),
        ...(body && !isForm ? { 'content-type': 'application/json' } : {}),
        ...headers,
      },
      ...(body ? { body: isForm ? body : JSON.stringify(body) } : {}),
    });
  }

  /** Runs a GraphQL query or mutation. */
  async graphql(query: string, variables: Record<string, unknown> = {}): Promise<GraphqlAnswer> {
    const { body } = await this.post('/api/graphql', { query, variables });
    return body;
  }

  /** Returns the headers that authenticate this client, for other clients (event streams, WebSockets). */
  async headers(): Promise<Record<string, string>> {
    const token = await this.#token();
    return token === null ? {} : { 'private-token': token };
  }
}
