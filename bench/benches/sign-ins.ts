import { setTimeout as sleep } from 'node:timers/promises';
import { hashPassword, verifyPassword } from '../../src/domains/users/password.ts';
import { median } from '../lib/compare.ts';
import { seed } from '../lib/data.ts';
import { openHttp } from '../lib/http.ts';
import { type Outcome, ratioText } from '../lib/report.ts';
import type { World } from '../lib/world.ts';

const SIGN_INS_PER_SECOND = 5;
const CONCURRENCY = 4;
const WINDOW_MS = 3_000;
const ROUNDS = 8;
const PASSWORD = 'correct-horse-battery';

/**
 * The effect of sign-ins on other requests. Measures `GET /projects` with 20 full records in three modes: alone, while
 * the hub exchanges passwords for tokens at a steady rate, and while this process verifies as many passwords, which
 * loads the machine equally but not the hub. The modes alternate. The last two differ by the delay that sign-ins cause
 * within the hub.
 */
export const signIns = async (world: World): Promise<Outcome> => {
  const database = await world.createDatabase();
  const hub = await database.startHub();
  const { token, userId } = await seed(database.pool, { groups: 20, projectsPerGroup: 50 });
  const digest = await hashPassword(PASSWORD);
  await database.pool.query('update users set password_hash = $1, confirmed_at = now() where id = $2', [
    digest,
    userId,
  ]);
  const [lists, grants] = [openHttp(hub.url, CONCURRENCY), openHttp(hub.url, 32)];
  const body = new URLSearchParams({ grant_type: 'password', username: 'bench-1', password: PASSWORD }).toString();

  const signIn = async (): Promise<void> => {
    const start = performance.now();
    const { status, text } = await grants.post('/oauth/token', body, {
      'content-type': 'application/x-www-form-urlencoded',
    });
    if (status !== 200) throw new Error(`signing in answered ${status}: ${text}`);
    signInsTook.push(performance.now() - start);
  };
  const signInsTook: number[] = [];
  const WORK: Readonly<Record<Mode, () => Promise<unknown>>> = {
    alone: async () => undefined,
    elsewhere: () => verifyPassword(digest, PASSWORD),
    beside: signIn,
  };
  /** Starts `work` at a steady rate, whether or not earlier calls are done. */
  const steadily = async (until: number, work: () => Promise<unknown>): Promise<void> => {
    const begun: Promise<unknown>[] = [];
    while (performance.now() < until) {
      begun.push(work());
      await sleep(1_000 / SIGN_INS_PER_SECOND);
    }
    await Promise.all(begun);
  };
  const list = async (until: number): Promise<number[]> => {
    const took: number[] = [];
    while (performance.now() < until) {
      const start = performance.now();
      await lists.drain({
        method: 'GET',
        path: '/api/v4/projects',
        headers: { 'private-token': token },
        leastBytes: 5_000,
      });
      took.push(performance.now() - start);
    }
    return took;
  };
  const window = async (mode: Mode): Promise<Window> => {
    const end = performance.now() + WINDOW_MS;
    const [lasted] = await Promise.all([
      Promise.all(Array.from({ length: CONCURRENCY }, () => list(end))),
      steadily(end, WORK[mode]),
    ]);
    const took = lasted.flat().toSorted((a, b) => a - b);
    const at = (share: number) => took[Math.floor((took.length - 1) * share)] ?? 0;
    return { perSecond: took.length / (WINDOW_MS / 1_000), p50: at(0.5), p99: at(0.99) };
  };

  try {
    for (const mode of MODES) await window(mode);
    signInsTook.length = 0;
    const rounds: Readonly<Record<Mode, Window>>[] = [];
    for (let round = 0; round < ROUNDS; round++) {
      const found = new Map<Mode, Window>();
      // Later modes find warmer caches, so the order rotates.
      for (const index of MODES.keys()) {
        const mode = MODES[(index + round) % MODES.length] ?? 'alone';
        found.set(mode, await window(mode));
      }
      const of = (mode: Mode): Window => found.get(mode) ?? { perSecond: 0, p50: 0, p99: 0 };
      rounds.push({ alone: of('alone'), elsewhere: of('elsewhere'), beside: of('beside') });
    }
    const ratios = (of: keyof Window, to: Mode) => rounds.map((each) => each.beside[of] / each[to][of]);
    const all = (of: keyof Window, digits: number) =>
      MODES.map((mode) => `${mode} ${median(rounds.map((each) => each[mode][of])).toFixed(digits)}`).join(', ');
    const line = (what: string, of: keyof Window, digits: number) =>
      `${what}: to elsewhere ${ratioText(ratios(of, 'elsewhere'))}; to alone ${ratioText(ratios(of, 'alone'))}: ${all(of, digits)}`;
    return {
      target: `beside ${SIGN_INS_PER_SECOND} sign-ins a second at least 0.6 of the lists a second alone`,
      reached: median(ratios('perSecond', 'alone')) >= 0.6,
      lines: [
        line('lists per second', 'perSecond', 0),
        line('p50 of a list, ms', 'p50', 1),
        line('p99 of a list, ms', 'p99', 1),
        `a sign-in takes ${median(signInsTook).toFixed(0)} ms (median of ${signInsTook.length})`,
      ],
    };
  } finally {
    await Promise.all([lists.close(), grants.close()]);
    await database.close();
  }
};

const MODES = ['alone', 'elsewhere', 'beside'] as const;
type Mode = (typeof MODES)[number];

interface Window {
  readonly perSecond: number;
  /** Milliseconds. */
  readonly p50: number;
  readonly p99: number;
}
