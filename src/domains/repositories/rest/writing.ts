import { z } from 'zod';
import { getProject } from '#domains/projects/queries.ts';
import { badParameters } from '#platform/errors.ts';
import { FILE_ACTIONS } from '#platform/git/writing.ts';
import type { Input } from '#rest/input.ts';
import { boolean, hash, idOrPath, list, oneOf, text } from '#rest/params.ts';
import { route, TEXT_BODY_BYTES } from '#rest/route.ts';
import { createCommit, type FileAction } from '../commit-changes.ts';
import { statsOfCommits } from '../commits.ts';
import { CONTENT_ENCODINGS, decodeContent } from '../content.ts';
import { cherryPick, revert } from '../picking.ts';
import { commitRecord, toCommit, toWholeCommit, wholeCommitRecord } from '../record.ts';

/** Content grows by half in base64 and JSON, so this allows about 20 MiB of files. */
const MAX_BODY_BYTES = 32 * 1024 * 1024;
const MAX_ACTIONS = 5_000;
/** Each action has at most eight members. */
const MAX_BODY_VALUES = 60_000;

const id = idOrPath();
const name = text({ max: 1_000 });
const path = text({ max: 4_096 });
const sha = text({ max: 64 });

const target = {
  branch: name,
  commit_message: text(),
  start_branch: name.optional(),
  start_project: idOrPath().optional(),
  author_name: text({ max: 255 }).optional(),
  author_email: text({ max: 255 }).optional(),
};

const content = {
  content: text().optional(),
  encoding: oneOf(CONTENT_ENCODINGS).default('text'),
  last_commit_id: sha.optional(),
  execute_filemode: boolean().optional(),
};

const action = hash({
  action: oneOf(FILE_ACTIONS),
  file_path: path,
  previous_path: path.optional(),
  ...content,
});

const toAction = (given: z.output<typeof action>, at: number): FileAction => {
  const { action, previous_path, content, encoding, execute_filemode } = given;
  const named = (parameter: string) => `actions[${at}][${parameter}]`;
  if (action === 'move' && previous_path === undefined) throw badParameters(`${named('previous_path')} is missing`);
  if ((action === 'create' || action === 'update') && content === undefined) {
    throw badParameters(`${named('content')} is missing`);
  }
  if (action === 'chmod' && execute_filemode === undefined) {
    throw badParameters(`${named('execute_filemode')} is missing`);
  }
  return {
    ...given,
    // Clients send the parameter with every action, but only `chmod` may clear the executable bit.
    execute_filemode: action === 'chmod' || execute_filemode ? execute_filemode : undefined,
    content: content === undefined ? undefined : decodeContent(content, encoding, named('content')),
  };
};

const writtenFileRecord = z.object({ file_path: z.string(), branch: z.string() }).meta({ id: 'WrittenFile' });

const fileTarget = { id, file_path: path, ...target };
const fileContent = { ...fileTarget, ...content, content: text() };

const writeFile = async (
  ctx: Parameters<typeof createCommit>[0],
  action: 'create' | 'update',
  { id, file_path, content, encoding, last_commit_id, execute_filemode, ...rest }: Input<typeof fileContent>,
) => {
  const project = await getProject(ctx, id);
  const written = decodeContent(content, encoding, 'content');
  await createCommit(ctx, project, rest, [{ action, file_path, content: written, last_commit_id, execute_filemode }]);
  return { file_path, branch: rest.branch };
};

const files = 'Repository files';

const pickInput = {
  id,
  sha: name,
  branch: name,
  dry_run: boolean().default(false),
  message: text({ max: 1_000_000 }).optional(),
};
const pickedRecord = z.union([commitRecord, z.object({ dry_run: z.literal('success') })]);

const pickRoute = (action: 'cherry_pick' | 'revert', summary: string, pick: typeof cherryPick) =>
  route({
    method: 'POST',
    path: `/projects/:id/repository/commits/:sha/${action}`,
    tag: 'Commits',
    summary,
    description: 'With `dry_run`, only checks whether it is possible and changes nothing.',
    maxBodyBytes: TEXT_BODY_BYTES,
    input: pickInput,
    response: pickedRecord,
    run: async (ctx, { id, sha, ...rest }, http) => {
      const project = await getProject(ctx, id);
      const commit = await pick(ctx, project, sha, rest);
      if (commit) return toCommit(ctx, project, commit);
      http.setStatus(200);
      return { dry_run: 'success' } as const;
    },
  });

export const writingRoutes = [
  route({
    method: 'POST',
    path: '/projects/:id/repository/commits',
    tag: 'Commits',
    summary: 'Create a commit with changes to several files',
    description:
      'Commits all changes or none. With `start_branch`, `start_sha` or `start_project`, creates the branch from there. `force` overwrites an existing branch.',
    maxBodyBytes: MAX_BODY_BYTES,
    maxBodyValues: MAX_BODY_VALUES,
    input: {
      id,
      ...target,
      actions: list(action, { max: MAX_ACTIONS }).optional(),
      start_sha: sha.optional(),
      force: boolean().default(false),
      stats: boolean().default(true),
      allow_empty: boolean().default(false),
    },
    response: wholeCommitRecord,
    run: async (ctx, { id, actions = [], stats, allow_empty, ...rest }) => {
      const project = await getProject(ctx, id);
      if (actions.length === 0 && !allow_empty) throw badParameters('actions is missing');
      const commit = await createCommit(ctx, project, rest, actions.map(toAction));
      const counted = stats ? await statsOfCommits(ctx, project, [commit]) : null;
      return toWholeCommit(ctx, project, commit, { stats: counted?.get(commit.id) ?? null, pipeline: null });
    },
  }),
  pickRoute('cherry_pick', 'Cherry-pick a commit to a branch', cherryPick),
  pickRoute('revert', 'Revert a commit on a branch', revert),
  route({
    method: 'POST',
    path: '/projects/:id/repository/files/:file_path',
    tag: files,
    summary: 'Create a file',
    maxBodyBytes: MAX_BODY_BYTES,
    input: fileContent,
    response: writtenFileRecord,
    run: (ctx, input) => writeFile(ctx, 'create', input),
  }),
  route({
    method: 'PUT',
    path: '/projects/:id/repository/files/:file_path',
    tag: files,
    summary: 'Change a file',
    maxBodyBytes: MAX_BODY_BYTES,
    input: fileContent,
    response: writtenFileRecord,
    run: (ctx, input) => writeFile(ctx, 'update', input),
  }),
  route({
    method: 'DELETE',
    path: '/projects/:id/repository/files/:file_path',
    tag: files,
    summary: 'Delete a file',
    input: { ...fileTarget, last_commit_id: sha.optional() },
    response: null,
    run: async (ctx, { id, file_path, last_commit_id, ...rest }) => {
      await createCommit(ctx, await getProject(ctx, id), rest, [{ action: 'delete', file_path, last_commit_id }]);
    },
  }),
];
