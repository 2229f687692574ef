/** What may carry custom attributes, each with the column that names it and its table. Groups are namespaces. */
export const OWNERS = {
  users: { column: 'user_id', table: 'users', subject: 'User' },
  groups: { column: 'namespace_id', table: 'namespaces', subject: 'Group' },
  projects: { column: 'project_id', table: 'projects', subject: 'Project' },
} as const;

export type OwnerKind = keyof typeof OWNERS;

/** What an administrator notes on a user, group or project: a text under a key, for administrators' eyes alone. */
export interface CustomAttribute {
  readonly key: string;
  readonly value: string;
}

/** Of a key, and of a value: both lie in one index, whose rows are short. */
export const MAX_LENGTH = 255;
