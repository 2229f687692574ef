import pg from 'pg';
import { statementName } from './pool.ts';

/**
 * Runs a prepared statement whose last parameter is a long `bytea`, given in parts. They go to the socket as they are.
 * Otherwise they would be joined and then copied into the message of pg. Both copies are memory outside the heap, and
 * some tens of megabytes of it make the garbage collector walk the whole heap.
 *
 * @param texts the other parameters, as Postgres writes them
 * @throws DatabaseError, or the error of a lost connection
 */
export const queryWithBytes = async <Row extends object>(
  pool: pg.Pool,
  text: string,
  texts: readonly string[],
  parts: readonly Buffer[],
): Promise<Row[]> => {
  const client = await pool.connect();
  try {
    const name = statementName(text) ?? '';
    // Without a name and without `texts`, pg would otherwise send the text alone, and no parameter.
    const config = { text, name, values: [...texts], queryMode: 'extended' };
    const query = new pg.Query<Row>(config);
    const { submit } = query;
    query.submit = (connection) =>
      submit.call(
        query,
        Object.create(connection, { bind: { value: () => writeBind(connection.stream, name, texts, parts) } }),
      );
    const rows = await new Promise<Row[]>((resolve, reject) => {
      query.on('end', (result) => resolve(result.rows)).on('error', reject);
      client.query(query);
    });
    client.release();
    return rows;
  } catch (error) {
    // An error of the statement leaves the connection usable.
    client.release(error instanceof pg.DatabaseError && error.severity === 'ERROR' ? undefined : true);
    throw error;
  }
};

const BIND = 'B'.charCodeAt(0);

/** Writes the message `Bind` (https://www.postgresql.org/docs/current/protocol-message-formats.html). */
const writeBind = (
  stream: pg.Connection['stream'],
  statement: string,
  texts: readonly string[],
  parts: readonly Buffer[],
): void => {
  // As in pg: a connection that is ending fails its statements itself.
  if (!stream.writable) return;
  const size = parts.reduce((sum, { length }) => sum + length, 0);
  const count = texts.length + 1;
  // No name for the portal, then the statement, the formats (0 is text, 1 binary) and the values.
  const head = Buffer.concat([
    Buffer.alloc(5),
    Buffer.from(`\0${statement}\0`),
    int16(count, ...texts.map(() => 0), 1, count),
    ...texts.flatMap((value) => {
      const bytes = Buffer.from(value);
      return [int32(bytes.length), bytes];
    }),
    int32(size),
  ]);
  // All results as text.
  const tail = int16(1, 0);
  head.writeUInt8(BIND);
  head.writeInt32BE(head.length - 1 + size + tail.length, 1);
  stream.write(head);
  for (const part of parts) stream.write(part);
  stream.write(tail);
};

const int16 = (...values: readonly number[]): Buffer => {
  const bytes = Buffer.allocUnsafe(2 * values.length);
  for (const [index, value] of values.entries()) bytes.writeInt16BE(value, 2 * index);
  return bytes;
};

const int32 = (value: number): Buffer => {
  const bytes = Buffer.allocUnsafe(4);
  bytes.writeInt32BE(value);
  return bytes;
};
