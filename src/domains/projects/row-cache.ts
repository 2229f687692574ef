import { sql } from 'kysely';
import { createRowCache } from '#platform/db/row-cache.ts';
import type { ProjectColumns } from './model.ts';
import { projectColumns } from './select.ts';

/** The columns of projects, about ninety, by version. */
export const withColumns = createRowCache<ProjectColumns>(
  'projects',
  sql.join(projectColumns.map((column) => sql.ref(`projects.${column}`))),
);
