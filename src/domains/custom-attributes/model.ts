/** The owners of custom attributes, with their column and table. Groups are namespaces. */
export const OWNERS = {
  users: { column: 'user_id', table: 'users', subject: 'User' },
  groups: { column: 'namespace_id', table: 'namespaces', subject: 'Group' },
  projects: { column: 'project_id', table: 'projects', subject: 'Project' },
} as const;

export type OwnerKind = keyof typeof OWNERS;

/** A text that administrators store under a key with a user, group or project. Only administrators can see it. */
export interface CustomAttribute {
  readonly key: string;
  readonly value: string;
}

/** Maximum length of a key and of a value, in characters. Both are in one index, whose entries must be short. */
export const MAX_LENGTH = 255;
