import { scanText } from '#domains/markdown/scanning.ts';
import { withoutCode } from './prose.ts';
import type { IssuableKind } from './quick-actions.ts';

/** A reference in a text to an issue or a merge request. */
export interface Reference {
  readonly kind: IssuableKind;
  /** The full path of its project; null for the project of the text. */
  readonly project: string | null;
  readonly iid: number;
  /** The text closes the issue when it is merged: `Closes #1`. */
  readonly closes: boolean;
}

/** More references of one text are ignored. */
const MAX_REFERENCES = 1_000;
const MAX_IID = 2_147_483_647;
const MAX_PATH = 1_024;

const ADDRESS =
  /^((?:[\w.][\w.-]*\/)+[\w.][\w.-]*)\/(?:-\/)?(issues|work_items|merge_requests)\/([1-9]\d{0,9})(?![\w-])/;
/** The verbs of reference merge-requests §4, with either case of the first letter. */
const VERB =
  /(?<!\w)(?:[Cc]los(?:e[sd]?|ing)|[Ff]ix(?:e[sd]|ing)?|[Rr]esolv(?:e[sd]?|ing)|[Ii]mplement(?:s|ed|ing)?)(?::? +(?:[Ii]ssues? +)?)/g;

interface Found extends Omit<Reference, 'closes'> {
  readonly start: number;
  readonly end: number;
}

/**
 * Finds references to issues (`#1`, `group/project#1`, addresses of this hub) and to merge requests (`!1` likewise), each
 * once, in the order of the text. Code is ignored. Takes linear time, because texts can be a megabyte long.
 *
 * @param hub The address that web pages of projects begin with
 * @see reference merge-requests §4
 */
export const findReferences = (text: string, hub: string): Reference[] => {
  const prose = withoutCode(text);
  const found = [...inNumbers(prose), ...inAddresses(prose, hub)].sort((a, b) => a.start - b.start);
  const closing = closingOnes(prose, found);
  const unique = new Map<string, Reference>();
  for (const each of found) {
    const { kind, project, iid } = each;
    const key = `${kind} ${project?.toLowerCase() ?? ''} ${iid}`;
    const closes = closing.has(each) || unique.get(key)?.closes === true;
    if (unique.has(key) || unique.size < MAX_REFERENCES) unique.set(key, { kind, project, iid, closes });
  }
  return [...unique.values()];
};

/** `#1`, `!1`, `group/project#1`: what Markdown links to. */
const inNumbers = (prose: string): Found[] =>
  scanText(prose, '').flatMap(({ start, end, reference }) =>
    reference.kind === 'issue' || reference.kind === 'merge_request'
      ? [{ kind: reference.kind, project: reference.project, iid: reference.iid, start, end }]
      : [],
  );

const inAddresses = (prose: string, hub: string): Found[] => {
  const all: Found[] = [];
  const base = `${hub.replace(/\/+$/, '')}/`;
  for (let at = prose.indexOf(base); at !== -1; at = prose.indexOf(base, at + base.length)) {
    const from = at + base.length;
    const match = ADDRESS.exec(prose.slice(from, from + MAX_PATH));
    const iid = Number(match?.[3]);
    if (!match?.[1] || iid > MAX_IID) continue;
    const kind = match[2] === 'merge_requests' ? 'merge_request' : 'issue';
    all.push({ kind, project: match[1], iid, start: at, end: from + match[0].length });
  }
  return all;
};

/** Returns the issues that follow a verb, alone or in a list. */
const closingOnes = (prose: string, found: readonly Found[]): ReadonlySet<Found> => {
  const closing = new Set<Found>();
  const indexByStart = new Map(found.map(({ start }, index) => [start, index]));
  for (const verb of prose.matchAll(VERB)) {
    let index = indexByStart.get(verb.index + verb[0].length);
    while (index !== undefined) {
      const each = found[index];
      if (each?.kind !== 'issue' || closing.has(each)) break;
      closing.add(each);
      index = indexByStart.get(endOfJoint(prose, each.end));
    }
  }
  return closing;
};

/** Skips what may stand between two references of a list: spaces, a comma, `and`, `issue`. */
const endOfJoint = (prose: string, from: number): number => {
  let at = afterSpaces(prose, from);
  if (prose.charAt(at) === ',') at = afterSpaces(prose, at + 1);
  for (const word of ['and ', 'issue ', 'issues '])
    if (prose.startsWith(word, at)) at = afterSpaces(prose, at + word.length);
  return at;
};

const afterSpaces = (prose: string, from: number): number => {
  let at = from;
  while (prose.charAt(at) === ' ') at++;
  return at;
};
