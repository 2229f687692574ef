/**
 * The log is partitioned by ranges of so many positions. The pruning job begins a new range from time to time, long
 * before one is full, so positions have gaps between ranges: a position says nothing about the number of events before
 * it. Positions stay safe integers for two million ranges.
 */
export const POSITIONS_PER_RANGE = 2 ** 32;

/**
 * Returns the number of events after `after`, up to and including `until`. Does not count earlier ranges than that of
 * `until`, because their size is not known.
 */
export const countBetween = (after: number, until: number): number =>
  Math.max(0, until - Math.max(after, until - (until % POSITIONS_PER_RANGE) - 1));
