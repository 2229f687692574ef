import { median } from './compare.ts';

/** What a bench has found. */
export interface Outcome {
  /** What issue 2 section 9 asks of it. */
  readonly target: string;
  readonly reached: boolean;
  readonly lines: readonly string[];
}

/** Ratios of interleaved windows. */
export const ratioText = (ratios: readonly number[]): string =>
  `${median(ratios).toFixed(2)} (median; min ${Math.min(...ratios).toFixed(2)}, max ${Math.max(...ratios).toFixed(2)})`;

export const describe = (name: string, { target, reached, lines }: Outcome): string =>
  [`${reached ? 'reached' : 'MISSED '} ${name}: ${target}`, ...lines.map((line) => `          ${line}`)].join('\n');
