import { expect } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import type { TestApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { pushCommits, README } from '../support/commits.ts';

export interface FileAction {
  readonly action: 'create' | 'update' | 'delete' | 'move';
  readonly file_path: string;
  readonly previous_path?: string;
  readonly content?: string;
  readonly encoding?: 'base64';
}

/** Commits over the API. Returns the id of the commit. */
export const commit = async (
  client: Client,
  project: string,
  branch: string,
  actions: readonly FileAction[],
  options: Record<string, unknown> = {},
): Promise<string> => {
  const answer = await client.post(`${project}/repository/commits`, {
    branch,
    commit_message: `Change ${actions.map(({ file_path }) => file_path).join(', ')}`,
    actions,
    ...options,
  });
  expect(answer).toMatchObject({ status: 201 });
  return answer.body.id;
};

/** Lines `1` to `n`, with some replaced or removed (null). */
export const lines = (n: number, replaced: Readonly<Record<number, string | null>> = {}): string =>
  Array.from({ length: n }, (_, index) => replaced[index + 1] ?? (replaced[index + 1] === null ? null : `${index + 1}`))
    .filter((line) => line !== null)
    .map((line) => `${line}\n`)
    .join('');

/**
 * Creates a merge request of a branch that changes line 10 of `a.txt` (of 20), and adds `b.txt`. Its diff is ready.
 */
export const makeReview = async (app: TestApp, attributes: Record<string, unknown> = {}) => {
  const scene = await makeScene(app, attributes);
  const { owner, path, project, people } = scene;
  const developer = await app.make.user();
  await app.make.projectMember(project, developer, 30);
  const [, , head] = await pushCommits(app, project, people.owner, [
    README,
    { branch: 'main', files: { 'a.txt': lines(20) } },
    { branch: 'feature', from: 'main', files: { 'a.txt': lines(20, { 10: 'ten' }), 'b.txt': 'new\nfile\n' } },
  ]);
  if (head === undefined) throw new Error('there are too few commits');
  const made = await owner.post(`${path}/merge_requests`, {
    source_branch: 'feature',
    target_branch: 'main',
    title: 'Improve a file',
  });
  expect(made.status).toBe(201);
  await app.settle();
  const at = `${path}/merge_requests/1`;
  const { diff_refs } = (await owner.get(at)).body;
  expect(diff_refs).toMatchObject({ head_sha: head });
  return {
    ...scene,
    people: { ...people, developer },
    developer: app.as(developer),
    at,
    head,
    id: made.body.id as number,
    refs: diff_refs as { base_sha: string; start_sha: string; head_sha: string },
    /** A position in `a.txt`, or at another path. */
    on: (position: Record<string, unknown>) => ({
      position_type: 'text',
      ...diff_refs,
      old_path: 'a.txt',
      new_path: 'a.txt',
      ...position,
    }),
  };
};
