/**
 * The data that is the same in every filled database, whatever its size: one tree of groups with 1,000 projects in and
 * around it, spread evenly over all ids and times, and the users who list them. The rare term, topic and language match
 * only these projects, so such lists have as many matches among 20,000 projects as among a million.
 */
export const WATCHED = {
  projects: 1_000,
  groups: 100,
  /** The top-level group of the tree. It contains 990 of the projects. */
  group: 'atlas',
  /** A project in the tree with 10,000 branches, if there is a directory for repositories. */
  branches: 'atlas/many-branches',
  /** Part of the names of 24 projects. */
  rareTerm: 'quokka',
  /** Two adjacent letters of it that occur nowhere else. */
  rarePair: 'kk',
  /** Part of the name of every tenth project. */
  commonTerm: 'service',
  /** The topic of 25 projects. */
  rareTopic: 'zeppelin',
  /** The topic of a third of all projects. */
  commonTopic: 'graphql',
  rareLanguage: 'Zig',
  commonLanguage: 'TypeScript',
} as const;

/**
 * The users who list projects, each with a token of scope `api`. The tokens are public, so use such a database only for
 * benches.
 */
export const PEOPLE = {
  /** An administrator. */
  administrator: { username: 'fill-administrator', token: 'glpat-fill-administrator-00000000000000' },
  /**
   * Sees 22 projects by membership: 10 of a group, 5 as a project member, 2 shared with the group, and 5 personal ones.
   */
  few: { username: 'fill-few', token: 'glpat-fill-few-000000000000000000000000' },
  /** A developer of the whole tree: 990 projects, and 5 personal ones. */
  large: { username: 'fill-large', token: 'glpat-fill-large-0000000000000000000000' },
} as const;

export const BRANCHES = { total: 10_000, merged: 3_000 } as const;
