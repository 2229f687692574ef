import type { Services } from '#platform/context.ts';
import { createPool } from '#platform/db/pool.ts';

const POOL_SIZE = 2;

/**
 * Opens the connections of the delivery engine. They are separate, so that claiming and recording never wait for each
 * other or for requests.
 */
export const openPools = ({ pool }: Pick<Services, 'pool'>) => {
  const { connectionString } = pool.options;
  if (connectionString === undefined) throw new Error('the pool has no connection string');
  const open = (applicationName: string, settings: Readonly<Record<string, string>>) =>
    createPool({
      connectionString,
      max: POOL_SIZE,
      applicationName,
      // The table swings between empty and full, so a plan made in one state must work in the other. Sequential scans
      // and nested loops would not.
      sessionSettings: { enable_seqscan: 'off', enable_nestloop: 'off', ...settings },
    });
  return {
    // A claim need not reach the disk before the delivery is sent. If the database loses it, the delivery is claimed
    // again.
    taking: open('millrace hooks', { synchronous_commit: 'off' }),
    recording: open('millrace hooks log', {}),
  };
};

export type DeliveryPools = ReturnType<typeof openPools>;
