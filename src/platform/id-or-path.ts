/** The value of `:id` for a project, group or user. A number is an id, never a path. */
export type IdOrPath = { readonly id: number; readonly path?: never } | { readonly path: string; readonly id?: never };
