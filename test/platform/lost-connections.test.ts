import pg from 'pg';
import { expect, inject, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { until } from '../support/until.ts';

const app = useApp();

it('empties the caches when Postgres may have lost commits', async () => {
  const { caches, pool } = app().hub.services;
  const counts = () => caches.figures().get('counts of lists')?.entries;
  const total = async () => (await app().anonymous.get('/projects?per_page=1')).headers.get('x-total');
  for (let i = 0; i < 2; i++) await app().make.project({ visibility: 'public' });
  expect(await total()).toBe('2');
  expect(counts()).toBeGreaterThan(0);
  await pool.query(`select pg_terminate_backend(pid) from pg_stat_activity
    where datname = current_database() and application_name = 'millrace all' and pid <> pg_backend_pid()`);
  await until('the counts to be forgotten', () => counts() === 0);
  expect(await total()).toBe('2');
});

it('answers changes with 503 while the database is a standby, and still reads', async () => {
  const { pool } = app().hub.services;
  const name = new URL(pool.options.connectionString ?? '').pathname.slice(1);
  const admin = new pg.Client({ connectionString: inject('testDatabase').adminUrl });
  await admin.connect();
  const setReadOnly = async (value: 'on' | 'off') => {
    await admin.query(`alter database ${name} set default_transaction_read_only = ${value}`);
    // Sessions take the setting over when they start.
    await admin.query(`select pg_terminate_backend(pid) from pg_stat_activity where datname = $1`, [name]);
    await until('new sessions', async () => {
      const shown = await pool.query('show transaction_read_only').catch(() => null);
      return shown?.rows[0].transaction_read_only === value;
    });
  };
  try {
    const client = app().as(app().root);
    await setReadOnly('on');
    const refused = await client.post('/projects', { name: 'refused' });
    expect([refused.status, refused.body]).toEqual([503, { message: '503 Service Unavailable' }]);
    expect(refused.headers.get('retry-after')).toMatch(/^\d+$/);
    expect((await client.get('/projects?search=refused')).body).toEqual([]);
    await setReadOnly('off');
    expect((await client.post('/projects', { name: 'refused' })).status).toBe(201);
  } finally {
    await admin.end();
  }
});
