/** What `:id` of a project, group or user holds: a number is an id, never a path. */
export type IdOrPath = { readonly id: number; readonly path?: never } | { readonly path: string; readonly id?: never };
