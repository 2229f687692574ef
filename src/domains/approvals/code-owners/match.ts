import { setImmediate } from 'node:timers/promises';
import type { CodeOwnersEntry } from './parse.ts';
import { compileSegment, type NameTest } from './segment.ts';

// All patterns of a file form one tree of segments. A path walks it once, and paths of one folder share the walk, so the
// cost does not grow with the number of patterns that begin elsewhere.

interface Node {
  readonly literals: Map<string, Node>;
  readonly tests: { readonly test: NameTest; readonly node: Node }[];
  readonly testNodes: Map<string, Node>;
  /** The weight of all tests. */
  weight: number;
  /** Any number of folders, none included. */
  anyDepth: Node | null;
  readonly isAnyDepth: boolean;
  /** The entries whose pattern ends here, by their place in the file. */
  readonly entries: number[];
}

const newNode = (isAnyDepth = false): Node => ({
  literals: new Map(),
  tests: [],
  testNodes: new Map(),
  weight: 0,
  anyDepth: null,
  isAnyDepth,
  entries: [],
});

/** Matches paths against the entries of one file. */
export interface OwnersMatcher {
  /** Returns the entries that own at least one of the paths, in the order of the file. */
  owning(paths: AsyncIterable<string> | Iterable<string>, options?: MatchOptions): Promise<Matched>;
}

export interface MatchOptions {
  /** The maximum number of steps for all paths. A step compares one character. */
  readonly maxSteps?: number;
}

export interface Matched {
  readonly entries: readonly CodeOwnersEntry[];
  /** False if the limit of steps was reached. Then `entries` has all entries with owners, so that nobody is left out. */
  readonly isExact: boolean;
}

const MAX_STEPS = 500_000_000;
/** Other requests get their turn after this many steps. */
const STEPS_AT_ONCE = 2_000_000;

/** In each section the last entry that matches a path owns it, unless an exclusion of the section matches too. */
export const createOwnersMatcher = (entries: readonly CodeOwnersEntry[]): OwnersMatcher => {
  const root = newNode();
  for (const [index, entry] of entries.entries()) add(root, entry.pattern, index);
  return {
    owning: async (paths, { maxSteps = MAX_STEPS } = {}) => {
      const found = new Set<number>();
      const walk = createWalk(root);
      let pausedAt = 0;
      for await (const path of paths) {
        if (walk.steps() - pausedAt > STEPS_AT_ONCE) {
          pausedAt = walk.steps();
          await setImmediate();
        }
        const matched = walk.match(path, maxSteps);
        if (matched === null) return { entries: entries.filter(({ exclusion }) => !exclusion), isExact: false };
        for (const index of owners(entries, matched)) found.add(index);
      }
      return { entries: entries.filter((_, index) => found.has(index)), isExact: true };
    },
  };
};

/** Returns the last match of each section that has no exclusion among the matches. */
const owners = (entries: readonly CodeOwnersEntry[], matched: readonly number[]): Iterable<number> => {
  const last = new Map<string, number>();
  const excluded = new Set<string>();
  for (const index of matched) {
    const entry = entries[index];
    if (!entry) continue;
    if (entry.exclusion) excluded.add(entry.section);
    else if ((last.get(entry.section) ?? -1) < index) last.set(entry.section, index);
  }
  for (const section of excluded) last.delete(section);
  return last.values();
};

const add = (root: Node, pattern: string, index: number): void => {
  let node = root;
  for (const segment of segmentsOf(pattern)) node = child(node, segment);
  node.entries.push(index);
};

/**
 * Splits a pattern. Without a slash at the start it matches in any folder, with a slash at the end it matches everything
 * below, and `**` stands for any number of folders.
 */
const segmentsOf = (pattern: string): readonly string[] => {
  const isRooted = pattern.startsWith('/');
  const segments = (isRooted ? pattern.slice(1) : pattern).split('/');
  // `src/` and `src/**` are everything below `src`.
  if (segments.at(-1) === '' || segments.at(-1) === '**') segments.splice(-1, 1, '**', '*');
  if (!isRooted) segments.unshift('**');
  return segments.filter((segment, at) => segment !== '**' || segments[at - 1] !== '**');
};

const child = (node: Node, segment: string): Node => {
  if (segment === '**') {
    node.anyDepth ??= newNode(true);
    return node.anyDepth;
  }
  const compiled = compileSegment(segment);
  if (typeof compiled === 'string') {
    const known = node.literals.get(compiled) ?? newNode();
    node.literals.set(compiled, known);
    return known;
  }
  const known = node.testNodes.get(segment);
  if (known) return known;
  const made = newNode();
  node.testNodes.set(segment, made);
  node.tests.push({ test: compiled, node: made });
  node.weight += compiled.weight;
  return made;
};

const createWalk = (root: Node) => {
  let steps = 0;
  let folder: string | null = null;
  let inFolder: readonly Node[] = [];
  const start = [...closed([root])];

  /** Returns the nodes after one more name, or null when too many steps are taken. */
  const next = (nodes: readonly Node[], name: string, maxSteps: number): readonly Node[] | null => {
    const reached = new Set<Node>();
    for (const node of nodes) {
      steps += 1 + node.weight * name.length;
      if (steps > maxSteps) return null;
      if (node.isAnyDepth) reached.add(node);
      const literal = node.literals.get(name);
      if (literal) reached.add(literal);
      for (const { test, node: after } of node.tests) if (test.accepts(name)) reached.add(after);
    }
    return [...closed(reached)];
  };

  return {
    steps: () => steps,
    /** Returns the matching entries by their place in the file, or null when too many steps are taken. */
    match: (path: string, maxSteps: number): readonly number[] | null => {
      const slash = path.lastIndexOf('/');
      const parent = path.slice(0, slash + 1);
      if (parent !== folder) {
        let nodes: readonly Node[] = start;
        for (const name of slash === -1 ? [] : path.slice(0, slash).split('/')) {
          const after = next(nodes, name, maxSteps);
          if (after === null) return null;
          nodes = after;
        }
        folder = parent;
        inFolder = nodes;
      }
      const ends = next(inFolder, path.slice(slash + 1), maxSteps);
      return ends === null ? null : ends.flatMap(({ entries }) => entries);
    },
  };
};

/** Adds the nodes that are reached without a name. */
const closed = (nodes: Iterable<Node>): Set<Node> => {
  const all = new Set<Node>();
  for (const node of nodes) {
    for (let each: Node | null = node; each && !all.has(each); each = each.anyDepth) all.add(each);
  }
  return all;
};
