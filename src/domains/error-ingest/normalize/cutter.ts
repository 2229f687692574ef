import type { JsonObject } from '#platform/values/json.ts';
import { cleanText } from '#platform/values/to-jsonb.ts';
import { FILTERED, isSecretName, scrubText } from './scrubbing.ts';
import { asObject, fromEntries } from './values.ts';

/** The limits of a part that may be any JSON. */
export interface Bounds {
  /** The limit for all texts and keys together. */
  readonly characters: number;
  readonly depth: number;
}

interface Budget {
  left: number;
  isCut: boolean;
}

const MAX_MARKS = 100;
const MARK = '…';
/** The cost of a value besides its characters, so that endless lists of numbers end too. */
const VALUE_COST = 4;

/** Cuts the parts of one event to their limits, and notes the paths of those that were cut. */
export class Cutter {
  readonly paths: string[] = [];

  mark(path: string): void {
    if (this.paths.length < MAX_MARKS && this.paths.at(-1) !== path) this.paths.push(path);
  }

  /** Cuts a text. The mark at its end counts towards the limit. */
  text(text: string, max: number, path: string): string {
    if (text.length <= max) return cleanText(text);
    this.mark(path);
    return cleanText(text.slice(0, max - MARK.length)) + MARK;
  }

  /** Keeps the last items of a list. */
  last<T>(list: readonly T[], max: number, path: string): readonly T[] {
    if (list.length <= max) return list;
    this.mark(path);
    return list.slice(-max);
  }

  /** Keeps the first items of a list. */
  first<T>(list: readonly T[], max: number, path: string): readonly T[] {
    if (list.length <= max) return list;
    this.mark(path);
    return list.slice(0, max);
  }

  /** Cuts and scrubs any JSON. */
  json(value: unknown, { characters, depth }: Bounds, path: string): unknown {
    const budget: Budget = { left: characters, isCut: false };
    const cut = walk(value, depth, budget);
    if (budget.isCut) this.mark(path);
    return cut;
  }

  /** Cuts and scrubs an object: each member by `bounds`, and all members together to `total` characters. */
  object(object: JsonObject, bounds: Bounds, total: number, path: string): JsonObject {
    let left = total;
    const entries: [string, unknown][] = [];
    for (const [key, value] of Object.entries(object)) {
      if (left <= 0) {
        this.mark(path);
        break;
      }
      const budget: Budget = { left: Math.min(left, bounds.characters), isCut: false };
      const before = budget.left;
      const name = cleanText(key.slice(0, MAX_KEY));
      entries.push([name, isSecretName(key) ? FILTERED : walk(value, bounds.depth - 1, budget)]);
      left -= before - budget.left + name.length + VALUE_COST;
      if (budget.isCut) this.mark(`${path}.${name}`);
    }
    return fromEntries(entries);
  }
}

const MAX_KEY = 200;
/** Longer than a password in a URL can be. */
const MAX_SECRET = 512;

const walk = (value: unknown, depth: number, budget: Budget): unknown => {
  budget.left -= VALUE_COST;
  if (typeof value === 'string') return walkText(value, budget);
  if (typeof value !== 'object' || value === null) return value ?? null;
  if (depth <= 0) {
    budget.isCut = true;
    return MARK;
  }
  return Array.isArray(value) ? walkList(value, depth, budget) : walkObject(value, depth, budget);
};

const walkText = (text: string, budget: Budget): string => {
  const max = Math.max(budget.left, 0);
  budget.left -= text.length;
  if (text.length <= max) return cleanText(scrubText(text));
  budget.isCut = true;
  // A little more than is kept, so that a secret at the end is found as a whole.
  return cleanText(scrubText(text.slice(0, max + MAX_SECRET)).slice(0, max)) + MARK;
};

const walkList = (list: readonly unknown[], depth: number, budget: Budget): unknown[] => {
  const kept: unknown[] = [];
  for (const item of list) {
    if (budget.left <= 0) {
      budget.isCut = true;
      break;
    }
    kept.push(walk(item, depth - 1, budget));
  }
  return kept;
};

const walkObject = (object: object, depth: number, budget: Budget): JsonObject => {
  const kept: [string, unknown][] = [];
  for (const [key, value] of Object.entries(asObject(object) ?? {})) {
    if (budget.left <= 0) {
      budget.isCut = true;
      break;
    }
    const name = cleanText(key.slice(0, MAX_KEY));
    budget.left -= name.length;
    kept.push([name, isSecretName(key) ? FILTERED : walk(value, depth - 1, budget)]);
  }
  return fromEntries(kept);
};
