import { IssueRef } from '#domains/issues/graphql.ts';
import { loadHtml } from '#domains/markdown/graphql.ts';
import { MergeRequestRef } from '#domains/merge-requests/graphql.ts';
import { mergeRequestsByIds } from '#domains/merge-requests/queries.ts';
import { loadProject, ProjectRef } from '#domains/projects/graphql.ts';
import { can } from '#domains/projects/policy.ts';
import { loadUser, UserRef } from '#domains/users/graphql.ts';
import { batchedConnection } from '#graphql/batched.ts';
import { builder } from '#graphql/builder.ts';
import type { ConnectionArguments } from '#graphql/connection.ts';
import { upperCase } from '#graphql/enums.ts';
import { orNull } from '#graphql/errors.ts';
import { gid } from '#graphql/ids.ts';
import { loader } from '#graphql/loaders.ts';
import { mutationField } from '#graphql/mutation.ts';
import type { Context } from '#platform/context.ts';
import { deleteNote, updateNote } from './commands.ts';
import { comment } from './commenting.ts';
import { noteableByModel } from './graphql/noteable.ts';
import { type NoteableKind, noteableWebUrl } from './noteable.ts';
import { canDeleteNote, canUpdateNote } from './policy.ts';
import {
  getNoteById,
  isResolvable,
  listNotesBelow,
  type NoteFilter,
  type NoteRow,
  noteableIidsByIds,
} from './queries.ts';
import { canResolve } from './resolving.ts';

const loadIssueIid = loader((ctx: Context, ids: readonly number[]) => noteableIidsByIds(ctx, 'issue', ids));
const loadMergeRequestIid = loader((ctx: Context, ids: readonly number[]) =>
  noteableIidsByIds(ctx, 'merge_request', ids),
);

const loadMergeRequest = loader(mergeRequestsByIds);

const NotePermissions = builder.objectRef<NoteRow>('NotePermissions').implement({
  description: 'What the caller may do with the comment.',
  fields: (t) => ({
    readNote: t.boolean({ nullable: false, resolve: () => true }),
    updateNote: t.boolean({
      nullable: false,
      resolve: async (note, _args, ctx) => {
        const project = await loadProject(ctx, note.project_id);
        return project !== null && canUpdateNote(ctx, project, note);
      },
    }),
    adminNote: t.boolean({
      nullable: false,
      resolve: async (note, _args, ctx) => {
        const project = await loadProject(ctx, note.project_id);
        return project !== null && canDeleteNote(ctx, project, note);
      },
    }),
    createNote: t.boolean({
      nullable: false,
      description: 'Whether the caller may answer it.',
      resolve: async (note, _args, ctx) => {
        const project = await loadProject(ctx, note.project_id);
        return project !== null && can(ctx, project, 'create_note');
      },
    }),
    resolveNote: t.boolean({
      nullable: false,
      description: 'Whether the caller may resolve its thread. False for comments that cannot be resolved.',
      resolve: async (note, _args, ctx) => {
        if (note.merge_request_id === null || !isResolvable(note)) return false;
        const project = await loadProject(ctx, note.project_id);
        const mergeRequest = await loadMergeRequest(ctx, note.merge_request_id);
        return project !== null && canResolve(ctx, { project, mergeRequest });
      },
    }),
  }),
});

/** A comment. */
export const NoteRef = builder.objectRef<NoteRow>('Note').implement({
  description: 'A comment on an issue or merge request.',
  fields: (t) => ({
    id: t.id({ nullable: false, resolve: (note) => gid('Note', note.id) }),
    body: t.exposeString('note', { nullable: false }),
    bodyHtml: t.string({
      resolve: ({ note, project_id }, _args, ctx) =>
        loadHtml(ctx, { text: note, home: { kind: 'project', id: project_id } }),
    }),
    author: t.field({
      type: UserRef,
      description: 'Null if the account has been deleted.',
      resolve: ({ author_id }, _args, ctx) => (author_id === null ? null : loadUser(ctx, author_id)),
    }),
    system: t.exposeBoolean('system', { nullable: false }),
    internal: t.exposeBoolean('confidential', { nullable: false }),
    discussionId: t.exposeString('discussion_id', { nullable: false }),
    noteableType: t.exposeString('noteable_type', { nullable: false }),
    resolvable: t.boolean({ nullable: false, resolve: isResolvable }),
    resolved: t.boolean({ nullable: false, resolve: ({ resolved_at }) => resolved_at !== null }),
    resolvedAt: t.expose('resolved_at', { type: 'Time' }),
    resolvedBy: t.field({
      type: UserRef,
      resolve: ({ resolved_by_id }, _args, ctx) => (resolved_by_id === null ? null : loadUser(ctx, resolved_by_id)),
    }),
    systemNoteAction: t.exposeString('system_note_action', {
      description: 'What a system note is about, such as `title` or `commit`.',
    }),
    lastEditedAt: t.expose('last_edited_at', { type: 'Time' }),
    lastEditedBy: t.field({
      type: UserRef,
      resolve: ({ updated_by_id }, _args, ctx) => (updated_by_id === null ? null : loadUser(ctx, updated_by_id)),
    }),
    createdAt: t.expose('created_at', { type: 'Time', nullable: false }),
    updatedAt: t.expose('updated_at', { type: 'Time', nullable: false }),
    project: t.field({ type: ProjectRef, resolve: (note, _args, ctx) => loadProject(ctx, note.project_id) }),
    url: t.string({
      resolve: async (note, _args, ctx) => {
        const kind: NoteableKind = note.issue_id === null ? 'merge_request' : 'issue';
        const [project, iid] = await Promise.all([
          loadProject(ctx, note.project_id),
          kind === 'issue'
            ? loadIssueIid(ctx, note.issue_id ?? 0)
            : loadMergeRequestIid(ctx, note.merge_request_id ?? 0),
        ]);
        return project && iid !== null ? `${noteableWebUrl(ctx, project, kind, iid)}#note_${note.id}` : null;
      },
    }),
    userPermissions: t.field({ type: NotePermissions, nullable: false, resolve: (note) => note }),
  }),
});
export const NoteConnection = builder.connectionObject({ type: NoteRef, name: 'NoteConnection' }, { name: 'NoteEdge' });

const NotesFilterType = builder.enumType('NotesFilterType', {
  values: upperCase(['all_notes', 'only_comments', 'only_activity']),
});

interface NoteArguments extends ConnectionArguments {
  readonly filter?: 'all_notes' | 'only_comments' | 'only_activity' | null | undefined;
}

const notesOf = (kind: NoteableKind) =>
  batchedConnection((ctx, { filter }: NoteArguments) => {
    const activity: NoteFilter['activity'] = filter === 'all_notes' ? null : filter;
    // Conversations are read from oldest to newest.
    return listNotesBelow(ctx, kind, { activity, sort: 'asc' });
  });
const issueNotes = notesOf('issue');
const mergeRequestNotes = notesOf('merge_request');

builder.objectField(IssueRef, 'notes', (t) =>
  t.connection(
    {
      type: NoteRef,
      args: { filter: t.arg({ type: NotesFilterType, defaultValue: 'all_notes' }) },
      resolve: (issue, args, ctx, info) => issueNotes(issue.id, args, ctx, info),
    },
    NoteConnection,
  ),
);

builder.objectField(MergeRequestRef, 'notes', (t) =>
  t.connection(
    {
      type: NoteRef,
      args: { filter: t.arg({ type: NotesFilterType, defaultValue: 'all_notes' }) },
      resolve: (mergeRequest, args, ctx, info) => mergeRequestNotes(mergeRequest.id, args, ctx, info),
    },
    NoteConnection,
  ),
);

builder.queryField('note', (t) =>
  t.field({
    type: NoteRef,
    args: { id: t.arg({ type: 'NoteID', required: true }) },
    resolve: (_root, { id }, ctx) => orNull(getNoteById(ctx, id).then(({ note }) => note)),
  }),
);

mutationField('createNote', {
  description:
    'Comments on an issue or merge request. Quick actions in the text run and vanish; `note` is null if nothing else is left.',
  input: (t) => ({
    noteableId: t.field({ type: 'NoteableID', required: true }),
    body: t.string({ required: true }),
    internal: t.boolean({ description: 'For Reporters and above only.' }),
    discussionId: t.field({ type: 'DiscussionID', description: 'The discussion to reply to.' }),
    createdAt: t.field({ type: 'Time', description: 'For owners only.' }),
  }),
  payload: { note: NoteRef },
  run: async (ctx, input) => {
    const noteable = await noteableByModel(ctx, input.noteableId);
    const { note } = await comment(ctx, noteable, {
      body: input.body,
      internal: input.internal ?? undefined,
      discussion_id: input.discussionId ?? undefined,
      created_at: input.createdAt ?? undefined,
    });
    return { note };
  },
});

mutationField('updateNote', {
  description: "Changes the caller's own comment.",
  input: (t) => ({ id: t.field({ type: 'NoteID', required: true }), body: t.string({ required: true }) }),
  payload: { note: NoteRef },
  run: async (ctx, { id, body }) => {
    const { noteable, note } = await getNoteById(ctx, id);
    return { note: await updateNote(ctx, noteable, note, body) };
  },
});

mutationField('destroyNote', {
  description: 'Deletes a comment.',
  input: (t) => ({ id: t.field({ type: 'NoteID', required: true }) }),
  payload: { note: NoteRef },
  run: async (ctx, { id }) => {
    const { noteable, note } = await getNoteById(ctx, id);
    await deleteNote(ctx, noteable, note);
    return { note: null };
  },
});
