import { loadUser } from '#domains/users/graphql.ts';
import type { Selection } from '#graphql/lookahead.ts';
import type { TextFields } from '#graphql/text-rows.ts';
import type { MergeRequestColumn } from '../queries.ts';

/** The columns that each field of MergeRequest reads. Fields that are not listed read the whole row. */
const columnsOfField = new Map<string, readonly MergeRequestColumn[]>([
  ['__typename', []],
  ['id', ['id']],
  ['iid', ['iid']],
  ['title', ['title']],
  ['description', ['description']],
  ['titleHtml', ['title', 'project_id']],
  ['descriptionHtml', ['description', 'project_id']],
  ['state', ['state']],
  ['draft', ['draft']],
  ['sourceBranch', ['source_branch']],
  ['targetBranch', ['target_branch']],
  ['projectId', ['project_id']],
  ['targetProjectId', ['project_id']],
  ['project', ['project_id']],
  ['author', ['author_id']],
  ['milestone', ['milestone_id']],
  ['labels', ['id']],
  ['assignees', ['id']],
  ['reviewers', ['id']],
  ['createdAt', ['created_at']],
  ['updatedAt', ['updated_at']],
  ['mergedAt', ['merged_at']],
  ['closedAt', ['closed_at']],
  ['webUrl', ['iid', 'project_path']],
  ['webPath', ['iid', 'project_path']],
  ['reference', ['iid', 'project_path']],
  ['upvotes', ['id']],
  ['downvotes', ['id']],
  ['userNotesCount', ['id']],
]);
/** The fields that are plain columns, so that lists of them pass as text. */
export const plainFields: TextFields = {
  iid: { column: 'iid', as: 'quoted' },
  title: { column: 'title', as: 'string' },
  description: { column: 'description', as: 'string' },
  // The values of the enum are those of the column.
  state: { column: 'state', as: 'quoted' },
  draft: { column: 'draft', as: 'raw' },
  sourceBranch: { column: 'source_branch', as: 'string' },
  targetBranch: { column: 'target_branch', as: 'string' },
  projectId: { column: 'project_id', as: 'raw' },
  targetProjectId: { column: 'project_id', as: 'raw' },
  author: { column: 'author_id', as: 'slot', load: loadUser },
};
const columnsOfSelection = new WeakMap<Selection, readonly MergeRequestColumn[] | undefined>();

/** Returns the columns to read for a selection; undefined for all. */
export const mergeRequestColumns = (selection: Selection): readonly MergeRequestColumn[] | undefined => {
  if (columnsOfSelection.has(selection)) return columnsOfSelection.get(selection);
  const columns = new Set<MergeRequestColumn>(['id']);
  let isKnown = true;
  for (const field of Object.keys(selection)) {
    const read = columnsOfField.get(field);
    if (!read) isKnown = false;
    for (const column of read ?? []) columns.add(column);
  }
  const found = isKnown ? [...columns] : undefined;
  columnsOfSelection.set(selection, found);
  return found;
};
