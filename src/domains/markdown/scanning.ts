import type { Reference } from './model.ts';

// Finds references in plain text and in URLs of the hub. All patterns take linear time: a path starts only where no
// path character precedes it, and quoted names have a maximum length.

const PATH = String.raw`\w[\w.-]*(?:\/[\w.][\w.-]*)`;
const NAME = String.raw`[\p{L}\p{N}_](?:[\p{L}\p{N}_?&.:-]*[\p{L}\p{N}_])?`;
const QUOTED = String.raw`"[^"\n]{1,255}"`;

const REFERENCE = new RegExp(
  [
    String.raw`(?:(?<![\w/.-])(?<project>${PATH}+))?(?:(?<mark>[#!])(?<iid>[1-9]\d{0,9})(?![\w])|(?<named>[~%])(?<name>${QUOTED}|${NAME})|@(?<sha>[0-9a-f]{7,40})(?![\w-]))`,
    String.raw`@(?<user>\w(?:[\w.-]*\w)?(?:\/\w(?:[\w.-]*\w)?)*)`,
    String.raw`(?<!\w)(?<own>[0-9a-f]{7,40})(?![\w-])`,
  ]
    .map((each) => `(?:${each})`)
    .join('|'),
  'gu',
);
/** A reference does not start after one of these characters. `&#39;` is a character, not an issue. */
const WORD_BEFORE = /[\p{L}\p{N}_/.@#!~%&$=+-]$/u;
const MAX_IID = 2_147_483_647;
/** Numbers are more often numbers than abbreviated commits. */
const DIGITS = /^\d+$/;

export interface FoundReference {
  readonly start: number;
  readonly end: number;
  readonly reference: Reference;
}

/**
 * Returns the references in a text without markup, in order.
 * @param before The text right before, which can make the first word a part of a longer one
 */
export const scanText = (text: string, before: string): FoundReference[] => {
  const found: FoundReference[] = [];
  for (const match of text.matchAll(REFERENCE)) {
    const start = match.index;
    const previous = start === 0 ? before : text.slice(Math.max(0, start - 2), start);
    if (WORD_BEFORE.test(previous)) continue;
    const source = match[0];
    const reference = referenceOf(source, match.groups ?? {});
    if (reference) found.push({ start, end: start + source.length, reference });
  }
  return found;
};

const referenceOf = (source: string, groups: Readonly<Record<string, string | undefined>>): Reference | null => {
  const { mark, iid, named, name, sha, user, own } = groups;
  const project = groups.project ?? null;
  if (mark !== undefined) {
    const number = Number(iid);
    if (number > MAX_IID) return null;
    return { kind: mark === '#' ? 'issue' : 'merge_request', source, project, iid: number };
  }
  if (name !== undefined) {
    const plain = name.startsWith('"') ? name.slice(1, -1) : name;
    return { kind: named === '~' ? 'label' : 'milestone', source, project, name: plain };
  }
  if (sha !== undefined) return project === null ? null : { kind: 'commit', source, project, sha };
  if (user !== undefined) return { kind: 'user', source, name: user };
  return own === undefined || DIGITS.test(own) ? null : { kind: 'commit', source, project: null, sha: own };
};

const ADDRESS = new RegExp(
  String.raw`^(?<project>${PATH}{1,20})\/(?:-\/)?(?:(?<part>issues|work_items|merge_requests)\/(?<iid>[1-9]\d{0,9})(?:#note_(?<note>[1-9]\d{0,14}))?|commit\/(?<sha>[0-9a-f]{7,40}))$`,
);

/** Returns the reference that a URL of the hub is, or null. `base` is the URL of the hub. */
export const scanUrl = (url: string, base: string): Reference | null => {
  if (!url.startsWith(`${base}/`) || url.length > 1_024) return null;
  const groups = ADDRESS.exec(url.slice(base.length + 1))?.groups;
  if (!groups) return null;
  const { part, iid, note, sha } = groups;
  const common = { source: url, url, project: groups.project ?? null };
  if (sha !== undefined) return { kind: 'commit', ...common, sha };
  const number = Number(iid);
  if (number > MAX_IID) return null;
  return {
    kind: part === 'merge_requests' ? 'merge_request' : 'issue',
    ...common,
    iid: number,
    ...(note === undefined ? {} : { note: Number(note) }),
  };
};
