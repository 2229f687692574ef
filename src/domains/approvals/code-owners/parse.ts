/** Where `CODEOWNERS` may be. The first file that exists counts (reference: merge-requests §5). */
export const CODE_OWNERS_PATHS = ['CODEOWNERS', 'docs/CODEOWNERS', '.gitlab/CODEOWNERS'] as const;

/** The section of entries before the first heading. */
const DEFAULT_SECTION = 'codeowners';

const MAX_APPROVALS = 100;
/** Later lines are not read. */
const MAX_LINES = 20_000;

/** A line with a pattern. */
export interface CodeOwnersEntry {
  /** As written, without the `!` of an exclusion. */
  readonly pattern: string;
  readonly section: string;
  /** `@user`, `@group/sub`, `@@developer` or an email address. Empty if the line and its section name nobody. */
  readonly owners: readonly string[];
  /** How many owners must approve, from the heading of the section. */
  readonly approvals: number;
  readonly optional: boolean;
  /** Nobody in the section owns files that match. Later entries cannot bring them back. */
  readonly exclusion: boolean;
}

export interface CodeOwnersProblem {
  readonly code:
    | 'invalid_approval_requirement'
    | 'invalid_entry_owner_format'
    | 'invalid_section_format'
    | 'missing_section_name';
  /** From 1. */
  readonly line: number;
}

export interface CodeOwners {
  /** In the order of the file. */
  readonly entries: readonly CodeOwnersEntry[];
  readonly problems: readonly CodeOwnersProblem[];
}

interface Section {
  /** As first written. */
  readonly name: string;
  /** A section is required as soon as one of its headings is. */
  isOptional: boolean;
}

/** What the entries below a heading inherit from it. */
interface Heading extends Pick<CodeOwnersEntry, 'approvals' | 'owners'> {
  readonly section: Section;
}

const HEADING = /^(\^?)\[([^\]]*)\](?:\[([^\]]*)\])?(?:\s+(.*))?$/;
const ENTRY = /^((?:\\.|[^\s\\]|\\$)+)(?:\s+(.*))?$/;

/**
 * Parses a `CODEOWNERS` file. Never fails: lines that cannot be understood are entries without owners, or problems.
 */
export const parseCodeOwners = (text: string): CodeOwners => {
  const problems: CodeOwnersProblem[] = [];
  const sections = new Map<string, Section>();
  const written: (Omit<CodeOwnersEntry, 'section' | 'optional'> & { readonly in: Section })[] = [];
  const sectionOf = (name: string, isOptional: boolean): Section => {
    const known = sections.get(name.toLowerCase());
    if (known) {
      known.isOptional &&= isOptional;
      return known;
    }
    const section = { name, isOptional };
    sections.set(name.toLowerCase(), section);
    return section;
  };
  let heading: Heading = { section: sectionOf(DEFAULT_SECTION, false), approvals: 1, owners: [] };
  for (const [index, raw] of text.split(/\r?\n/, MAX_LINES).entries()) {
    const line = raw.trim();
    const problem = (code: CodeOwnersProblem['code']) => problems.push({ code, line: index + 1 });
    if (line === '' || line.startsWith('#')) continue;
    const found = headingOf(line);
    if (found) {
      if (found.name === '') problem('missing_section_name');
      if (found.approvals === null) problem('invalid_approval_requirement');
      heading = {
        section: found.name === '' ? sectionOf(DEFAULT_SECTION, false) : sectionOf(found.name, found.isOptional),
        approvals: found.approvals ?? 1,
        owners: found.owners,
      };
      continue;
    }
    if (/^\^?\[[^\]]*$/.test(line)) problem('invalid_section_format');
    const [, first = line, rest = ''] = ENTRY.exec(line) ?? [];
    const exclusion = first.startsWith('!');
    const { owners, wrong } = ownersIn(rest);
    if (wrong) problem('invalid_entry_owner_format');
    written.push({
      pattern: exclusion ? first.slice(1) : first,
      owners: owners.length > 0 || wrong ? owners : heading.owners,
      approvals: heading.approvals,
      exclusion,
      in: heading.section,
    });
  }
  const entries = written.map(({ in: section, ...entry }) => ({
    ...entry,
    section: section.name,
    optional: section.isOptional,
  }));
  return { entries, problems };
};

/** Returns null if the line is an entry. A pattern may begin with a set such as `[ab].txt`. */
const headingOf = (line: string) => {
  const match = HEADING.exec(line);
  if (!match) return null;
  const [, mark, name = '', count, rest = ''] = match;
  const { owners, wrong } = ownersIn(rest);
  if (wrong) return null;
  const number = count === undefined ? 1 : /^\d{1,9}$/.test(count) ? Number(count) : 0;
  return {
    name: name.trim(),
    isOptional: mark === '^',
    approvals: number === 0 ? null : Math.min(number, MAX_APPROVALS),
    owners,
  };
};

/** Reads owners up to a comment. `wrong`: something among them is no owner. */
const ownersIn = (text: string): { readonly owners: readonly string[]; readonly wrong: boolean } => {
  const words = text.split(/\s+/).filter((word) => word !== '');
  const comment = words.findIndex((word) => word.startsWith('#'));
  const named = comment === -1 ? words : words.slice(0, comment);
  const owners = named.filter((word) => OWNER.test(word));
  return { owners: [...new Set(owners)], wrong: owners.length < named.length };
};

const OWNER = /^(?:@@?[^\s@]{1,500}|[^\s@]{1,64}@[^\s@]{1,255})$/;
