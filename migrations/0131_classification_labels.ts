import { type Kysely, sql } from 'kysely';

/** External authorization asks about each label that projects have. Few projects have one. */
export const up = async (db: Kysely<unknown>): Promise<void> => {
  await sql`
    create index projects_by_classification_label on projects (external_authorization_classification_label)
      where external_authorization_classification_label <> ''`.execute(db);
};
