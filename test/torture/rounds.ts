import { within } from './bounded.ts';
import { type Breakage, Cluster } from './cluster.ts';

export interface TortureOptions {
  readonly rounds: number;
  /** Determines what happens and when, apart from the timing of the machine. */
  readonly seed: number;
  /** No round starts after this time. The work until then is checked. */
  readonly seconds?: number;
  readonly say?: (line: string) => void;
  /** A running cluster to break, which stays open. Without it, the torture starts its own. */
  readonly cluster?: Cluster;
}

/** Work that is disturbed in rounds, then left alone and checked. */
export interface Scene<Found> {
  prepare(): Promise<void>;
  /** Works and breaks something at the same time. Returns what was done. */
  round(round: number): Promise<string>;
  /** Waits until the remaining work has ended. */
  calm(): Promise<void>;
  judge(): Promise<Found>;
  close(): Promise<void>;
}

export interface Rounds extends Breakage {
  readonly rounds: number;
  readonly seconds: number;
}

/** Runs the rounds of a scene, and closes it. Returns what it found. Rejects if a round takes longer than `limitMs`. */
export const runRounds = async <Found extends object>(
  makeScene: (cluster: Cluster) => Scene<Found>,
  options: TortureOptions,
  limitMs: number,
): Promise<Rounds & Found> => {
  const cluster = options.cluster ?? (await Cluster.open());
  try {
    const before = cluster.breakage;
    const found = await disturb(makeScene(cluster), options, limitMs);
    const { killed, restarts, crashes } = cluster.breakage;
    return {
      ...found,
      killed: killed - before.killed,
      restarts: restarts - before.restarts,
      crashes: crashes - before.crashes,
    };
  } finally {
    if (!options.cluster) await cluster.close();
  }
};

const disturb = async <Found extends object>(
  scene: Scene<Found>,
  { rounds, seconds = Number.POSITIVE_INFINITY, say = () => {} }: TortureOptions,
  limitMs: number,
) => {
  const startedAt = performance.now();
  const elapsed = () => (performance.now() - startedAt) / 1_000;
  try {
    await scene.prepare();
    let round = 0;
    while (round < rounds && elapsed() < seconds) {
      round++;
      say(`round ${round}: ${await within(limitMs, `round ${round}`, scene.round(round))}`);
    }
    say('letting what is left end');
    await scene.calm();
    const found = await scene.judge();
    return { rounds: round, ...found, seconds: Math.round(elapsed()) };
  } finally {
    await scene.close();
  }
};
