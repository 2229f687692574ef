/** Which issues or merge requests a list covers. The first two are empty for anonymous callers. */
export const LIST_SCOPES = ['created_by_me', 'assigned_to_me', 'all'] as const;
export type ListScope = (typeof LIST_SCOPES)[number];

/** The columns that `search` looks in. */
export const SEARCHED = ['title', 'description'] as const;
export type Searched = (typeof SEARCHED)[number];
