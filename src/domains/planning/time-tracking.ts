const HOUR = 3_600;
/** A day has eight working hours, a week five days, and a month four weeks. */
const UNITS = [
  ['mo', 160 * HOUR],
  ['w', 40 * HOUR],
  ['d', 8 * HOUR],
  ['h', HOUR],
  ['m', 60],
  ['s', 1],
] as const;

/** Formats seconds of work as `1w 2d 30m`; null for none. */
export const humanDuration = (seconds: number): string | null => {
  let rest = Math.abs(seconds);
  const parts: string[] = [];
  for (const [unit, size] of UNITS) {
    const count = Math.floor(rest / size);
    rest -= count * size;
    if (count > 0) parts.push(`${count}${unit}`);
  }
  return parts.length === 0 ? null : `${seconds < 0 ? '-' : ''}${parts.join(' ')}`;
};

/** Returns the time object of records. */
export const timeStats = (time_estimate: number, total_time_spent: number) => ({
  time_estimate,
  total_time_spent,
  human_time_estimate: humanDuration(time_estimate),
  human_total_time_spent: humanDuration(total_time_spent),
});
