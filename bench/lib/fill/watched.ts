/**
 * What is the same in every filled database, however large it is: one tree of groups with 1,000 projects in it and around
 * it, spread evenly over all ids and times, and the people who look at it. Searches for the rare term, the rare topic and
 * the rare language find these alone, so that lists of them have as many matches among 20,000 projects as among a million.
 */
export const WATCHED = {
  projects: 1_000,
  groups: 100,
  /** The topmost of the tree; 990 of the projects are in it. */
  group: 'atlas',
  /** A project in it with 10,000 branches, when there is a directory for repositories. */
  branches: 'atlas/many-branches',
  /** In the names of 24 projects. */
  rareTerm: 'quokka',
  /** Two letters of it that stand together nowhere else. */
  rarePair: 'kk',
  /** In the names of every tenth project. */
  commonTerm: 'service',
  /** Of 25 projects. */
  rareTopic: 'zeppelin',
  /** Of a third of all. */
  commonTopic: 'graphql',
  rareLanguage: 'Zig',
  commonLanguage: 'TypeScript',
} as const;

/** Who looks, with a token of scope `api` each. The plain text is known to everybody: such a database is for benches alone. */
export const PEOPLE = {
  /** An administrator. */
  administrator: { username: 'fill-administrator', token: 'glpat-fill-administrator-00000000000000' },
  /** Sees 22 projects by membership: of a group 10, 5 as their member, 2 as shared with his group, 5 of his own. */
  few: { username: 'fill-few', token: 'glpat-fill-few-000000000000000000000000' },
  /** A developer of the whole tree: 990 projects, and 5 of his own. */
  large: { username: 'fill-large', token: 'glpat-fill-large-0000000000000000000000' },
} as const;

export const BRANCHES = { total: 10_000, merged: 3_000 } as const;
