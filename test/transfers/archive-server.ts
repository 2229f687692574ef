import type { IncomingMessage, ServerResponse } from 'node:http';

export interface ServedFile {
  readonly bytes: Buffer;
  /** Null sends none. */
  readonly etag?: string | null;
  readonly type?: string;
  /** Ends the connection after this many bytes of each response, as long as some of the file is missing. */
  readonly breakAfter?: number;
  readonly ranges?: boolean;
}

/** Answers a request for a file like an object store: HEAD, GET and ranges. */
export const serveFile = (request: IncomingMessage, response: ServerResponse, file: ServedFile): void => {
  const { bytes, etag = '"one"', type = 'application/gzip', breakAfter = Number.POSITIVE_INFINITY } = file;
  const start = file.ranges === false ? 0 : Number(/^bytes=(\d+)-$/.exec(request.headers.range ?? '')?.[1] ?? 0);
  const part = bytes.subarray(start);
  const head = { 'content-type': type, 'content-length': part.length, ...(etag === null ? {} : { etag }) };
  if (start > 0)
    response.writeHead(206, { ...head, 'content-range': `bytes ${start}-${bytes.length - 1}/${bytes.length}` });
  else response.writeHead(200, head);
  if (request.method === 'HEAD') response.end();
  else if (part.length <= breakAfter) response.end(part);
  else response.write(part.subarray(0, breakAfter), () => response.destroy());
};
