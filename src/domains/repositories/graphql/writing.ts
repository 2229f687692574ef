import { builder } from '#graphql/builder.ts';
import { mutationField } from '#graphql/mutation.ts';
import { badRequest } from '#platform/errors.ts';
import { createCommit, type FileAction } from '../commit-changes.ts';
import { decodeContent } from '../content.ts';
import { CommitRef } from '../graphql.ts';
import { projectAt } from './refs.ts';

const CommitActionMode = builder.enumType('CommitActionMode', {
  description: 'The kind of change to a file.',
  values: ['CREATE', 'DELETE', 'MOVE', 'UPDATE', 'CHMOD'] as const,
});

const CommitEncoding = builder.enumType('CommitEncoding', { values: ['TEXT', 'BASE64'] as const });

const CommitAction = builder.inputType('CommitAction', {
  description: 'One change to a file.',
  fields: (t) => ({
    action: t.field({ type: CommitActionMode, required: true }),
    filePath: t.string({ required: true }),
    previousPath: t.string({ description: 'For `MOVE`: the current path of the file.' }),
    content: t.string({ description: 'For `CREATE` and `UPDATE`. Optional for `MOVE`.' }),
    encoding: t.field({ type: CommitEncoding, description: 'Defaults to TEXT.' }),
    lastCommitId: t.string({ description: 'The last commit that changed the file, as far as the caller knows.' }),
    executeFilemode: t.boolean({ description: 'For `CHMOD`.' }),
  }),
});

const MODES = { CREATE: 'create', DELETE: 'delete', MOVE: 'move', UPDATE: 'update', CHMOD: 'chmod' } as const;
const MAX_ACTIONS = 5_000;

const toAction = (given: typeof CommitAction.$inferInput): FileAction => {
  const { previousPath, content, encoding, executeFilemode } = given;
  const action = MODES[given.action];
  if (action === 'move' && previousPath == null) throw badRequest('previousPath is missing');
  if ((action === 'create' || action === 'update') && content == null) throw badRequest('content is missing');
  if (action === 'chmod' && executeFilemode == null) throw badRequest('executeFilemode is missing');
  return {
    action,
    file_path: given.filePath,
    previous_path: previousPath ?? undefined,
    content: content == null ? undefined : decodeContent(content, encoding === 'BASE64' ? 'base64' : 'text', 'content'),
    last_commit_id: given.lastCommitId ?? undefined,
    execute_filemode: action === 'chmod' || executeFilemode ? (executeFilemode ?? undefined) : undefined,
  };
};

mutationField('commitCreate', {
  description: 'Commits changes to files, all or none.',
  input: (t) => ({
    projectPath: t.id({ required: true }),
    branch: t.string({ required: true }),
    startBranch: t.string({ description: 'The branch to create `branch` from.' }),
    message: t.string({ required: true }),
    actions: t.field({ type: [CommitAction], required: true }),
  }),
  payload: {
    commit: CommitRef,
    commitPipelinePath: 'String',
    content: ['String'],
  },
  run: async (ctx, { projectPath, branch, startBranch, message, actions }) => {
    if (actions.length === 0) throw badRequest('actions is empty');
    if (actions.length > MAX_ACTIONS) throw badRequest(`there can be at most ${MAX_ACTIONS} actions`);
    const project = await projectAt(ctx, projectPath);
    const target = { branch, start_branch: startBranch ?? undefined, commit_message: message };
    const commit = await createCommit(ctx, project, target, actions.map(toAction));
    return { commit: { ...commit, project }, content: actions.flatMap(({ content }) => content ?? []) };
  },
});
