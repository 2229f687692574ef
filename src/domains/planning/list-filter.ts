/** Which issues or merge requests a list covers. Anonymous callers have none of their own. */
export const LIST_SCOPES = ['created_by_me', 'assigned_to_me', 'all'] as const;
export type ListScope = (typeof LIST_SCOPES)[number];

/** Whether the scope covers only what the caller created or takes part in, which anonymous callers never do. */
export const isOwnScope = (scope: string | null | undefined): boolean => scope != null && scope !== 'all';

/** The columns that `search` looks in. */
export const SEARCHED = ['title', 'description'] as const;
export type Searched = (typeof SEARCHED)[number];
