import type { QuickCommand } from '#domains/planning/quick-actions.ts';
import type { QuickChanges } from '#domains/planning/quick-changes.ts';
import type { Context } from '#platform/context.ts';
import { createNote, type NewNote, prepareNote, writeNote } from './commands.ts';
import type { Commentable, Noteable } from './noteable.ts';
import { requireCreateNote } from './policy.ts';
import type { GivenPosition } from './positions/model.ts';
import type { NoteRow } from './queries.ts';
import { applyQuickActions, quickActionsIn } from './quick-actions.ts';
import { checkCommands, runCommands } from './quick-commands.ts';
import { placeIn } from './reviewing.ts';

export interface Commented {
  /** Null if the text had nothing but quick actions. */
  readonly note: NoteRow | null;
  /** The changes that quick actions made. */
  readonly changes: QuickChanges & Partial<Record<QuickCommand, true>>;
}

/**
 * Comments on an issue, merge request or commit, and runs the quick actions in the text with the caller's rights.
 *
 * @throws DomainError as `createNote`, `readQuickActions`, `updateIssue`, `updateMergeRequest` and `runCommands`
 */
export const comment = async (ctx: Context, noteable: Commentable, input: NewNote): Promise<Commented> => {
  if (noteable.kind === 'commit') return { note: await createNote(ctx, noteable, input), changes: {} };
  const { project, mergeRequest } = noteable;
  requireCreateNote(ctx, noteable, input.internal ?? false);
  const quick = await quickActionsIn(ctx, noteable, input.body);
  if (!quick) return { note: await createNote(ctx, noteable, input), changes: {} };
  // Checked before the actions run, so that a refused comment changes nothing.
  const prepared = quick.text === '' ? null : await prepareNote(ctx, noteable, { ...input, body: quick.text });
  if (mergeRequest) await checkCommands(ctx, project, mergeRequest, quick.commands);
  await applyQuickActions(ctx, noteable, quick);
  if (mergeRequest) await runCommands(ctx, project, mergeRequest, quick.commands);
  const ran = Object.fromEntries(quick.commands.map(({ name }) => [name, true as const]));
  const changes = { ...quick.changes, ...ran };
  return { note: prepared && (await ctx.transaction((tx) => writeNote(tx, noteable, prepared))), changes };
};

export interface NewThread extends Pick<NewNote, 'body' | 'internal' | 'created_at' | 'commit_id'> {
  /** A place in the diff, for merge requests only. */
  readonly position?: GivenPosition | undefined;
}

/**
 * Starts a thread on an issue or merge request, or on a line of its diff.
 *
 * @throws DomainError as `comment`, `bad_request` for a place that is not in the diff
 */
export const startThread = async (
  ctx: Context,
  noteable: Noteable,
  { position, ...note }: NewThread,
): Promise<Commented> => {
  requireCreateNote(ctx, noteable, note.internal ?? false);
  const place = await placeIn(ctx, noteable, { position, commit_id: note.commit_id });
  return comment(ctx, noteable, { ...note, begins_discussion: true, place });
};
