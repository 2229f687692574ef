import { type Kysely, sql } from 'kysely';

/**
 * Lists of issues are walked and gathered as those of merge requests are (decision 41). Each order of a project has an
 * index. Few issues have a date, a weight or a position, so three of them are small: the others follow their id. The
 * index of links also finds the issues of a label without reading the links themselves.
 */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create index issues_by_title on issues (project_id, title, id);
    create index issues_by_id on issues (project_id, id);
    create index issues_by_due on issues (project_id, due_date, id) where due_date is not null;
    create index issues_by_weight on issues (project_id, weight, id) where weight is not null;
    create index issues_by_position on issues (project_id, relative_position, id) where relative_position is not null;
    create index issues_by_state on issues (project_id, state, created_at, id);
    drop index issues_state;
    create index issues_confidential on issues (project_id, id) where confidential;
    drop index label_links_label;
    create index label_links_label on label_links (label_id, merge_request_id, issue_id)
  `.execute(db);
};
