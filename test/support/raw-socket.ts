import { connect, type Socket } from 'node:net';
import { until } from './until.ts';

export interface RawConnection {
  readonly socket: Socket;
  /** Returns what the server has sent so far. */
  text(): string;
  /** Returns all that was sent once the connection is closed or reset. Fails if the server keeps it open. */
  over(): Promise<string>;
}

/** Opens a connection, optionally from `localAddress`, and writes the bytes unchanged. */
export const openRaw = async (
  url: string,
  bytes: string | Buffer = '',
  { localAddress }: { readonly localAddress?: string } = {},
): Promise<RawConnection> => {
  const { hostname, port } = new URL(url);
  const from = localAddress === undefined ? {} : { localAddress };
  const socket = connect({ host: hostname, port: Number(port), allowHalfOpen: true, ...from });
  const chunks: Buffer[] = [];
  socket.on('data', (chunk: Buffer) => chunks.push(chunk));
  const text = () => Buffer.concat(chunks).toString('latin1');
  // A server may reset a connection if it has not read all bytes.
  socket.on('error', () => socket.destroy());
  socket.once('end', () => socket.end());
  await new Promise<void>((connected) => socket.once('connect', connected).once('close', () => connected()));
  if (bytes.length > 0) socket.write(bytes);
  const over = async () => {
    await until('the server to close the connection', () => socket.closed);
    return text();
  };
  return { socket, text, over };
};
