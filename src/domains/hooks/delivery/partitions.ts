import type { Context } from '#platform/context.ts';
import { ensurePartitions, type PartitionedTable } from '#platform/db/partitions.ts';
import { DAY_MS } from '#platform/values/units.ts';

/**
 * The tables of deliveries, by the day on which a delivery was created. A delivery, its payload and its attempts go
 * together.
 */
export const DELIVERY_TABLES: readonly PartitionedTable[] = [
  { name: 'webhook_attempts', step: 'day' },
  // Finishing a delivery writes the new version of the row to the same page.
  { name: 'webhook_deliveries', step: 'day', options: 'fillfactor = 70' },
  // Payloads of usual size stay uncompressed. Compressing one takes longer than all the rest of its delivery.
  { name: 'webhook_payloads', step: 'day', options: 'toast_tuple_target = 8160' },
];

/**
 * Creates the partitions for deliveries created at these times, by default today and tomorrow. Call it before inserting
 * deliveries. It remembers what exists.
 */
export const ensureDeliveryPartitions = async (
  ctx: Pick<Context, 'services'>,
  times: readonly (string | Date)[] = [new Date(), new Date(Date.now() + DAY_MS)],
): Promise<void> => {
  for (const table of DELIVERY_TABLES) await ensurePartitions(ctx, table, times);
};
