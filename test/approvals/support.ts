import { expect } from 'vitest';
import { makeScene } from '../planning/scene.ts';
import type { TestApp } from '../support/app.ts';
import type { Client } from '../support/client.ts';
import { pushCommits, README } from '../support/commits.ts';

interface Files {
  readonly branch: string;
  readonly files: Readonly<Record<string, string>>;
  readonly start_branch?: string;
  readonly action?: 'create' | 'update';
  readonly message?: string;
}

/** Commits files over the API. Returns the id of the commit. */
export const commitFiles = async (client: Client, path: string, commit: Files): Promise<string> => {
  const { branch, files, start_branch, action = 'create', message = `Change ${branch}` } = commit;
  const answer = await client.post(`${path}/repository/commits`, {
    branch,
    ...(start_branch ? { start_branch } : {}),
    commit_message: message,
    actions: Object.entries(files).map(([file_path, content]) => ({ action, file_path, content })),
  });
  expect(answer.status).toBe(201);
  return answer.body.id as string;
};

/** The people besides those of the scene: an author and three colleagues, all Developers. */
export const makeReview = async (
  app: TestApp,
  {
    project: attributes = {},
    files = { 'new.txt': 'text\n' },
    main = {},
  }: {
    readonly project?: Record<string, unknown>;
    /** The files that the merge request adds. */
    readonly files?: Readonly<Record<string, string>>;
    /** The files that the target branch has before. */
    readonly main?: Readonly<Record<string, string>>;
  } = {},
) => {
  const scene = await makeScene(app, attributes);
  const { path, project, people } = scene;
  const [authorUser, adaUser, bobUser, eveUser] = await app.make.users(4);
  if (!(authorUser && adaUser && bobUser && eveUser)) throw new Error('there are too few users');
  await app.make.projectMembers(
    project,
    [authorUser, adaUser, bobUser, eveUser].map((user) => [user, 30]),
  );
  const standing = Object.keys(main).length > 0 ? [{ branch: 'main', files: main }] : [];
  await pushCommits(app, project, people.owner, [README, ...standing]);
  const [head] = await pushCommits(app, project, authorUser, [
    { branch: 'feature', from: 'main', message: 'Change feature', files },
  ]);
  const author = app.as(authorUser);
  const made = await author.post(`${path}/merge_requests`, {
    source_branch: 'feature',
    target_branch: 'main',
    title: 'Change files',
  });
  expect(made.status).toBe(201);
  await app.settle();
  return {
    ...scene,
    id: made.body.id as number,
    at: `${path}/merge_requests/1`,
    head,
    author,
    ada: app.as(adaUser),
    bob: app.as(bobUser),
    eve: app.as(eveUser),
    users: { author: authorUser, ada: adaUser, bob: bobUser, eve: eveUser },
  };
};

interface Rule {
  readonly name?: string;
  readonly rule_type?: string;
  readonly report_type?: string;
  readonly approvals_required: number;
  readonly users?: readonly { readonly id: number }[];
  readonly source_rule_id?: number;
}

/** Inserts a rule of a project or of a merge request, and returns its id. */
export const insertRule = async (
  app: TestApp,
  owner: { readonly project_id: number } | { readonly merge_request_id: number },
  { users = [], name = 'Rule', rule_type = 'regular', ...rule }: Rule,
): Promise<number> => {
  const { db } = app.hub.services;
  const { id } = await db
    .insertInto('approval_rules')
    .values({ name, rule_type, ...rule, ...owner })
    .returning('id')
    .executeTakeFirstOrThrow();
  if (users.length > 0) {
    await db
      .insertInto('approval_rule_users')
      .values(users.map((user) => ({ rule_id: id, user_id: user.id })))
      .execute();
  }
  return id;
};

export interface Settings {
  readonly allow_author_approval?: boolean;
  readonly allow_committer_approval?: boolean;
  readonly allow_overrides_to_approver_list_per_merge_request?: boolean;
  readonly retain_approvals_on_push?: boolean;
  readonly selective_code_owner_removals?: boolean;
  readonly require_reauthentication_to_approve?: boolean;
}

export const setSettings = async (app: TestApp, project_id: number, settings: Settings): Promise<void> => {
  await app.hub.services.db
    .insertInto('approval_settings')
    .values({
      project_id,
      allow_author_approval: false,
      allow_committer_approval: true,
      allow_overrides_to_approver_list_per_merge_request: true,
      retain_approvals_on_push: false,
      selective_code_owner_removals: false,
      require_reauthentication_to_approve: false,
      ...settings,
    })
    .execute();
};
