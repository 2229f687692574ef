import pg from 'pg';
import { expect, test } from 'vitest';
import { createLogger } from '#platform/log.ts';

const logged = (write: (log: ReturnType<typeof createLogger>) => void): string => {
  let text = '';
  const destination = {
    write: (line: string) => {
      text += line;
    },
  };
  write(createLogger('info', destination));
  return text;
};

test('logs a Postgres error without its connection and its row', () => {
  const client = new pg.Client({ connectionString: 'postgresql://hub:the-password@127.0.0.1:1/hub' });
  const error = Object.assign(new Error('duplicate key value violates unique constraint'), {
    code: '23505',
    severity: 'ERROR',
    detail: 'Key (email)=(somebody@example.com) already exists.',
    where: 'COPY row 7: the-row',
    client,
    secretKey: 17,
    connectionParameters: { password: 'the-password' },
  });
  const text = logged((log) => {
    log.error({ err: error }, 'failed');
    log.error(error);
    log.error({ err: new Error('outer', { cause: error }) }, 'failed');
    log.error({ err: new AggregateError([error], 'several') }, 'failed');
    log.error({ error }, 'failed');
  });
  for (const secret of [
    'the-password',
    'somebody@example.com',
    'the-row',
    'secretKey',
    'connectionParameters',
    '"host"',
  ])
    expect(text).not.toContain(secret);
  const [first = '', , third = ''] = text.split('\n');
  expect(JSON.parse(first).err).toEqual({
    type: 'Error',
    message: 'duplicate key value violates unique constraint',
    stack: error.stack,
    code: '23505',
    severity: 'ERROR',
  });
  expect(JSON.parse(third).err.cause).toMatchObject({ code: '23505' });
});

test('logs a value that is not an error as it is', () => {
  expect(JSON.parse(logged((log) => log.warn({ err: 'a word' }, 'odd'))).err).toBe('a word');
});
