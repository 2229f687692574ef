import { IssueRef } from '#domains/issues/graphql.ts';
import { getProject } from '#domains/projects/queries.ts';
import { findUserByUsername } from '#domains/users/queries.ts';
import type { InputFields } from '#graphql/builder.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { invalid } from '#platform/errors.ts';
import { createIssueForError, type ErrorChanges, updateError, updateErrors } from '../errors/commands.ts';
import { deleteError } from '../errors/deletion.ts';
import { mergeErrors } from '../errors/merging.ts';
import { getErrorWithProject } from '../errors/queries.ts';
import { ErrorRef, StatusEnum } from './errors.ts';

/** The parts that mutations of one error and of many share. */
const changeFields = (t: InputFields) => ({
  status: t.field({ type: StatusEnum, description: 'Resolving closes the linked issue.' }),
  release: t.string({
    description: 'With RESOLVED: the release that has the fix. Events from earlier ones do not reopen the error.',
  }),
  ignoredUntil: t.field({ type: 'Time', description: 'With IGNORED: when it ends.' }),
  ignoredEvents: t.int({ description: 'With IGNORED: it ends after so many more events.' }),
  assigneeUsername: t.string({ description: 'Null assigns nobody.' }),
});

interface ChangeInput {
  readonly status?: ErrorChanges['status'] | null;
  readonly release?: string | null;
  readonly ignoredUntil?: string | null;
  readonly ignoredEvents?: number | null;
  readonly assigneeUsername?: string | null;
}

const changesOf = async (
  ctx: Context,
  { status, release, ignoredUntil, ignoredEvents, assigneeUsername }: ChangeInput,
): Promise<ErrorChanges> => ({
  status: status ?? undefined,
  release: release ?? undefined,
  ignored_until: ignoredUntil ?? undefined,
  ignored_events: ignoredEvents ?? undefined,
  assignee_id: assigneeUsername == null ? assigneeUsername : await userNamed(ctx, assigneeUsername),
});

mutationField('errorTrackingErrorUpdate', {
  description: 'Resolves, ignores, reopens or assigns an error, or links it to an issue. Requires at least Developer.',
  input: (t) => ({
    id: t.field({ type: 'ErrorTrackingErrorID', required: true }),
    ...changeFields(t),
    issueId: t.field({ type: 'IssueID', description: 'An issue of the same project. Null removes the link.' }),
  }),
  payload: { error: ErrorRef },
  run: async (ctx, { id, issueId, ...given }) => {
    const { project } = await getErrorWithProject(ctx, id);
    return { error: await updateError(ctx, project, id, { ...(await changesOf(ctx, given)), issue_id: issueId }) };
  },
});

mutationField('errorTrackingErrorsUpdate', {
  description:
    'Resolves, ignores, reopens or assigns up to 100 errors of a project: all or none. Requires at least Developer.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    ids: t.field({ type: ['ErrorTrackingErrorID'], required: true }),
    ...changeFields(t),
  }),
  payload: { updated: [ErrorRef] },
  run: async (ctx, { projectPath, ids, ...given }) => {
    const project = await getProject(ctx, { path: projectPath });
    return { updated: await updateErrors(ctx, project, ids, await changesOf(ctx, given)) };
  },
});

mutationField('errorTrackingErrorsMerge', {
  description:
    'Merges up to 100 errors into another one of the project, which keeps its title and status. A resolved one is reopened if it gets an unresolved one. It takes over their counts and, a little later, their events. Later events of the same kind belong to it. Cannot be undone. Requires at least Developer.',
  input: (t) => ({
    id: t.field({ type: 'ErrorTrackingErrorID', required: true, description: 'The error that stays.' }),
    ids: t.field({
      type: ['ErrorTrackingErrorID'],
      required: true,
      description: 'The errors that become a part of it.',
    }),
  }),
  payload: { error: ErrorRef },
  run: async (ctx, { id, ids }) => {
    const { project } = await getErrorWithProject(ctx, id);
    return { error: await mergeErrors(ctx, project, id, ids) };
  },
});

mutationField('errorTrackingErrorDestroy', {
  description: 'Deletes an error with its events. If it occurs again, it is a new error. For maintainers.',
  input: (t) => ({ id: t.field({ type: 'ErrorTrackingErrorID', required: true }) }),
  payload: {},
  run: async (ctx, { id }) => {
    const { project } = await getErrorWithProject(ctx, id);
    await deleteError(ctx, project, id);
    return {};
  },
});

/** The error is the same as for a user who cannot be assigned. */
const userNamed = async (ctx: Context, username: string): Promise<number> => {
  const user = await findUserByUsername(ctx, username);
  if (!user) throw invalid({ assignee: ['cannot be assigned'] });
  return user.id;
};

mutationField('errorTrackingErrorCreateIssue', {
  description: 'Opens an issue about an error, and links it. Requires at least Developer.',
  input: (t) => ({
    id: t.field({ type: 'ErrorTrackingErrorID', required: true }),
    title: t.string({ description: 'That of the error by default.' }),
    description: t.string({ description: 'A summary of the error by default.' }),
    confidential: t.boolean(),
  }),
  payload: { error: ErrorRef, issue: IssueRef },
  run: async (ctx, { id, title, description, confidential }) => {
    const { project } = await getErrorWithProject(ctx, id);
    return createIssueForError(ctx, project, id, {
      title: title ?? undefined,
      description: description ?? undefined,
      confidential: confidential ?? undefined,
    });
  },
});
