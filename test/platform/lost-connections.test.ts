import { expect, it } from 'vitest';
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
