import type { PartitionedTable } from '#platform/db/partitions.ts';

/** The events of errors, by week of arrival (decision 48). */
export const ERROR_EVENTS: PartitionedTable = { name: 'error_events', step: 'week' };
