import { type RawBuilder, sql } from 'kysely';
import { GUEST, REPORTER } from '#domains/access/model.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import { can, type JudgedProject, requireAbility } from '#domains/projects/policy.ts';
import type { Context } from '#platform/context.ts';
import { forbidden } from '#platform/errors.ts';
import type { Commentable } from './noteable.ts';
import type { NoteRow } from './queries.ts';

/** Internal comments require a Reporter, for reading and writing. */
const canReadInternal = (project: Pick<ProjectRow, 'access_level'>): boolean => project.access_level >= REPORTER;

/** Selects the project of the row `notes` through its issue or merge request, which the index of the notes has. */
export const projectOfNote = (kind: 'issue' | 'merge_request'): RawBuilder<number> => sql<number>`(
  select owner.project_id from ${sql.table(`${kind}s`)} owner where owner.id = ${sql.ref(`notes.${kind}_id`)})`;

/** The same in a project that is loaded for the caller. An index has what it checks. */
export const noteIsVisibleIn = (project: Pick<ProjectRow, 'access_level'>): RawBuilder<boolean> =>
  canReadInternal(project) ? sql<boolean>`true` : sql<boolean>`not notes.confidential`;

/** @throws DomainError `unauthenticated`, `forbidden`. Only members can comment in a locked discussion. */
export const requireCreateNote = (
  ctx: Context,
  { project, discussion_locked }: Commentable,
  isInternal: boolean,
): void => {
  requireAbility(ctx, project, 'create_note');
  if (discussion_locked && project.access_level < GUEST) throw forbidden();
  if (isInternal && !canReadInternal(project)) throw forbidden();
};

/** Returns true for the caller's own comments. System notes cannot be changed. */
export const canUpdateNote = (ctx: Pick<Context, 'actor'>, project: JudgedProject, note: NoteRow): boolean =>
  !note.system && isAuthor(ctx, note) && can(ctx, project, 'create_note');

/** Returns true for authors and Maintainers. */
export const canDeleteNote = (ctx: Pick<Context, 'actor'>, project: JudgedProject, note: NoteRow): boolean =>
  can(ctx, project, 'admin_note') || canUpdateNote(ctx, project, note);

const isAuthor = ({ actor }: Pick<Context, 'actor'>, note: NoteRow): boolean =>
  note.author_id !== null && note.author_id === actor.userId;
