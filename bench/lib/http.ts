import { Pool } from 'undici';

/** An HTTP client for one server, with keep-alive connections. */
export interface Http {
  get(path: string, headers?: Readonly<Record<string, string>>): Promise<Answer>;
  post(path: string, body: string, headers?: Readonly<Record<string, string>>): Promise<Answer>;
  put(path: string, body: string, headers?: Readonly<Record<string, string>>): Promise<Answer>;
  /** Reads and discards the response. Checks only its status and minimum length. */
  drain(request: Prepared): Promise<void>;
  close(): Promise<void>;
}

export interface Answer {
  readonly status: number;
  readonly text: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

export interface Prepared {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly body?: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly leastBytes: number;
}

export const openHttp = (url: string, connections = 8): Http => {
  const pool = new Pool(url, { connections, pipelining: 1 });
  const ask = async (
    method: 'GET' | 'POST' | 'PUT',
    path: string,
    body: string | null,
    headers: Record<string, string>,
  ) => {
    const answer = await pool.request({ method, path, body, headers });
    return { status: answer.statusCode, text: await answer.body.text(), headers: answer.headers };
  };
  return {
    get: (path, headers = {}) => ask('GET', path, null, { ...headers }),
    post: (path, body, headers = {}) => ask('POST', path, body, { 'content-type': 'application/json', ...headers }),
    put: (path, body, headers = {}) => ask('PUT', path, body, { 'content-type': 'application/json', ...headers }),
    drain: async ({ method, path, body = null, headers, leastBytes }) => {
      const { statusCode, body: answer } = await pool.request({ method, path, body, headers: { ...headers } });
      let length = 0;
      for await (const chunk of answer) length += chunk.length;
      if (statusCode !== 200 || length < leastBytes) throw new Error(`${path} answered ${statusCode}, ${length} bytes`);
    },
    close: () => pool.close(),
  };
};
