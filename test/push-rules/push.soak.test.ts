import { mkdir, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { commitFile, eventsOf, remoteOf, runGit, tryGit, useFolder, workTree } from '../repositories/support.ts';
import { type TestUser, useApp } from '../support/app.ts';
import { pushTree } from '../support/commits.ts';

const app = useApp();
const folder = useFolder();

/** Creates a group with a project that has one commit on `main`, and a work tree of it. */
const setUp = async (rule: Record<string, unknown> | null, attributes: Record<string, unknown> = {}) => {
  const owner = await app().make.user({ name: 'Ada', ...attributes });
  const group = await app().make.group({}, owner);
  const project = await app().make.project({ namespace_id: group.id }, owner);
  const tree = await workTree(folder());
  const remote = await remoteOf(app(), project, owner);
  await pushTree(app(), project, owner, tree, 'main');
  const client = app().as(owner);
  const setRule = async (given: Record<string, unknown>) => {
    const path = `/projects/${project.id}/push_rule`;
    const answer = await client.put(path, given);
    if (answer.status === 404) expect((await client.post(path, given)).status).toBe(201);
    else expect(answer.status).toBe(200);
  };
  if (rule) await setRule(rule);
  const { db, config } = app().hub.services;
  const { disk_path } = await db
    .selectFrom('projects')
    .select('disk_path')
    .where('id', '=', project.id)
    .executeTakeFirstOrThrow();
  /** Reads the repository itself, because `git ls-remote` would cost two requests and four processes. */
  const refs = async () =>
    (await runGit(join(config.dataDir, 'repositories', disk_path), 'show-ref', '--head', '--dereference')).split('\n');
  /** Pushes, expects a refusal that changes nothing, and returns its message. */
  const refused = async (...refspecs: string[]): Promise<string> => {
    const before = await refs();
    const events = await eventsOf(app(), project.id);
    const { code, stderr } = await tryGit(tree, 'push', remote, ...refspecs);
    expect(code, stderr).toBe(1);
    expect(await refs()).toEqual(before);
    expect(await eventsOf(app(), project.id)).toEqual(events);
    return stderr;
  };
  const accepted = async (...refspecs: string[]): Promise<void> => {
    const { code, stderr } = await tryGit(tree, 'push', remote, ...refspecs);
    expect(code, stderr).toBe(0);
  };
  const commit = (message: string, ...flags: string[]) =>
    runGit(tree, 'commit', '-q', '--allow-empty', '-m', message, ...flags);
  const head = () => runGit(tree, 'rev-parse', '--short=8', 'HEAD');
  const reset = () => runGit(tree, 'reset', '-q', '--hard', 'origin-of-test');
  await runGit(tree, 'tag', 'origin-of-test');
  return { owner, group, project, tree, remote, client, setRule, refs, refused, accepted, commit, head, reset };
};

const author = (name: string, email: string) => ['--author', `${name} <${email}>`];

describe('a rule for commits', () => {
  it('requires messages that match, and refuses messages that match the negative pattern', async () => {
    const repo = await setUp({
      commit_message_regex: '^(Fixes|JIRA-\\d+):',
      commit_message_negative_regex: '(?i)wip$',
    });
    await repo.commit('Fixes: all is well');
    await repo.commit('No reference');
    const bad = await repo.head();
    await repo.commit('JIRA-12: more');
    const said = await repo.refused('main');
    expect(said).toContain(
      `remote: refs/heads/main: commit ${bad}: the message does not match "^(Fixes|JIRA-\\d+):" (push rule commit_message_regex)`,
    );
    expect(said).not.toContain(await repo.head());
    await repo.reset();
    // `^` and `$` match at each line.
    await repo.commit('A title\n\nFixes: in the second paragraph');
    await repo.accepted('main');
    await repo.commit('JIRA-1: this is wip\n\nmore');
    expect(await repo.refused('main')).toContain('(push rule commit_message_negative_regex)');
  });

  it('checks only new commits', async () => {
    const repo = await setUp(null);
    await repo.commit('bad from before');
    await repo.accepted('main');
    await repo.setRule({ commit_message_regex: '^Good' });
    await repo.accepted('main:old');
    await repo.commit('Good');
    await repo.accepted('main');
    await repo.accepted('--force', 'origin-of-test^{commit}:refs/heads/old');
    await repo.accepted('main:old');
    await repo.commit('bad');
    // A tag or a second branch must not bring in bad commits either.
    expect(await repo.refused('HEAD:refs/tags/v1')).toContain('refs/tags/v1: commit');
    await runGit(repo.tree, 'tag', '-a', '-m', 'Good', 'annotated');
    await repo.refused('annotated');
    await repo.refused('HEAD~1:refs/heads/fine', 'HEAD:refs/heads/other');
    await repo.accepted('HEAD~1:refs/tags/v0');
  });

  it('names the ref with the refused commits, and at most ten reasons', async () => {
    const repo = await setUp({ commit_message_regex: '^Good' });
    await repo.commit('Good');
    await runGit(repo.tree, 'branch', 'fine');
    for (let n = 0; n < 15; n++) await repo.commit(`bad ${n}`);
    const said = await repo.refused('fine', 'main:later');
    expect(said.match(/remote: refs\/heads\/later: commit/g)).toHaveLength(10);
    expect(said).not.toContain('remote: refs/heads/fine:');
  });

  it('requires matching email addresses of authors and committers', async () => {
    const repo = await setUp({ author_email_regex: '@example\\.com$' });
    await repo.commit('fine');
    await repo.accepted('main');
    await repo.commit('not fine', ...author('Eve', 'eve@example.org'));
    expect(await repo.refused('main')).toContain('"eve@example.org" does not match');
  });

  it('requires the name and a confirmed address of the user who pushes', async () => {
    const email = 'ada@example.com';
    const repo = await setUp({ commit_committer_check: true, commit_committer_name_check: true });
    await repo.commit('mine', ...author('Somebody', 'somebody@example.org'));
    expect(await repo.refused('main')).toContain(`"${email}" is not a confirmed address of yours`);
    const { db } = app().hub.services;
    const { id } = await db
      .insertInto('emails')
      .values({ user_id: repo.owner.id, email: email.toUpperCase(), confirmed_at: null })
      .returning('id')
      .executeTakeFirstOrThrow();
    await repo.refused('main');
    await db.updateTable('emails').set({ confirmed_at: new Date().toISOString() }).where('id', '=', id).execute();
    await repo.accepted('main');
    await db.updateTable('users').set({ name: 'Ada Lovelace' }).where('id', '=', repo.owner.id).execute();
    await repo.commit('another');
    expect(await repo.refused('main')).toContain('name "Ada" is not yours, "Ada Lovelace"');
    await db.deleteFrom('emails').where('id', '=', id).execute();
  });

  it('requires authors who are users', async () => {
    const repo = await setUp({ member_check: true });
    const known = await app().make.user();
    const unconfirmed = await app().make.user({ confirmed_at: null });
    const { db } = app().hub.services;
    await db.updateTable('users').set({ email: 'ada@example.com' }).where('id', '=', known.id).execute();
    await repo.commit('fine');
    await repo.accepted('main');
    await repo.commit('unconfirmed', ...author('U', `${unconfirmed.username}@example.com`));
    expect(await repo.refused('main')).toContain('is not the address of a user (push rule member_check)');
    await repo.reset();
    await repo.commit('nobody', ...author('N', 'nobody@example.org'));
    expect(await repo.refused('main:side')).toContain('"nobody@example.org" is not the address of a user');
    await db
      .updateTable('users')
      .set({ email: `${known.username}@example.com` })
      .where('id', '=', known.id)
      .execute();
  });

  it('requires a sign-off and a signature', async () => {
    const repo = await setUp({ reject_non_dco_commits: true });
    await repo.commit('none\n\nSigned-off-by: me');
    expect(await repo.refused('main')).toContain('(push rule reject_non_dco_commits)');
    await repo.reset();
    await repo.commit('fine', '--signoff');
    await repo.accepted('main');
    await repo.setRule({ reject_non_dco_commits: false, reject_unsigned_commits: true });
    await repo.commit('unsigned\n\ngpgsig in the message');
    expect(await repo.refused('main')).toContain('it is not signed (push rule reject_unsigned_commits)');
    const key = join(repo.tree, '..', `key-${repo.project.id}`);
    await runGit(repo.tree, 'reset', '-q', '--hard', 'HEAD~1');
    await sshKey(key);
    await runGit(repo.tree, 'config', 'gpg.format', 'ssh');
    await runGit(repo.tree, 'config', 'user.signingkey', key);
    await repo.commit('signed', '-S');
    await repo.accepted('main');
  });

  it('checks the changes of a merge commit', async () => {
    const repo = await setUp({ file_name_regex: '\\.exe$' });
    await runGit(repo.tree, 'checkout', '-q', '-b', 'side');
    await commitFile(repo.tree, 'side.txt', 'side', 'Side');
    await runGit(repo.tree, 'checkout', '-q', 'main');
    await commitFile(repo.tree, 'main.txt', 'main', 'Main');
    await runGit(repo.tree, 'merge', '-q', '--no-commit', 'side');
    await commitFile(repo.tree, 'evil.exe', 'evil', 'Merge');
    expect(await repo.refused('main')).toContain(`commit ${await repo.head()}: the file name "evil.exe"`);
  });
});

const sshKey = async (path: string): Promise<void> => {
  const { execFile } = await import('node:child_process');
  const { promisify } = await import('node:util');
  await promisify(execFile)('ssh-keygen', ['-q', '-t', 'ed25519', '-N', '', '-f', path]);
};

describe('a rule for files', () => {
  it('refuses new and renamed files by name, but not changed or removed ones', async () => {
    const repo = await setUp(null);
    await commitFile(repo.tree, 'old.exe', 'old', 'Before');
    await repo.accepted('main');
    await repo.setRule({ file_name_regex: '(jar|exe)$' });
    await commitFile(repo.tree, 'old.exe', 'changed', 'Change');
    await repo.accepted('main');
    await runGit(repo.tree, 'mv', 'old.exe', 'new.jar');
    await repo.commit('Rename');
    expect(await repo.refused('main')).toContain(
      'the file name "new.jar" matches "(jar|exe)$" (push rule file_name_regex)',
    );
    await repo.reset();
    await commitFile(repo.tree, 'ä b\nc.exe', 'x', 'Odd name');
    await runGit(repo.tree, 'rm', '-q', '*.exe');
    await repo.commit('And away');
    // A file that is added and removed stays in the history. Its odd name must not reach the terminal unescaped.
    expect(await repo.refused('main:side')).toContain('the file name "ä b c.exe" matches');
  });

  it('refuses files that look like secrets', async () => {
    const repo = await setUp({ prevent_secrets: true });
    const secrets = ['id_rsa', 'deep/er/id_ed25519', 'server.pem', 'TLS.KEY', '.netrc', '.aws/credentials', 'a.kdbx'];
    for (const name of [...secrets, 'id_rsa.pub', 'keyboard.ts', 'monkey', 'pem', 'credentials']) {
      await mkdir(join(repo.tree, name, '..'), { recursive: true });
      await writeFile(join(repo.tree, name), 'x');
    }
    await runGit(repo.tree, 'add', '--all');
    await repo.commit('Secrets');
    const said = await repo.refused('main');
    for (const name of secrets) expect(said).toContain(`"${name}" looks like a file with secrets`);
    expect(said.match(/looks like/g)).toHaveLength(secrets.length);
  });

  it('refuses new files that are too big, even behind a tag', async () => {
    const repo = await setUp(null);
    const big = Buffer.alloc(1024 * 1024 + 1, 'x').toString();
    await commitFile(repo.tree, 'before.bin', big, 'Before the rule');
    await repo.accepted('main');
    await repo.setRule({ max_file_size: 1 });
    await runGit(repo.tree, 'rm', '-q', 'before.bin');
    await repo.commit('Away');
    await commitFile(repo.tree, 'right.bin', big.slice(0, -1), 'Just right');
    await runGit(repo.tree, 'checkout', 'HEAD~2', '--', 'before.bin');
    await repo.commit('And back');
    await repo.accepted('main');
    await commitFile(repo.tree, 'too big.bin', `${big}y`, 'Too big');
    const bad = await repo.head();
    await runGit(repo.tree, 'rm', '-q', 'too big.bin');
    await repo.commit('Away again');
    expect(await repo.refused('main')).toContain(
      `commit ${bad}: "too big.bin" has 1.0 MiB, more than 1 (push rule max_file_size)`,
    );
    // A tag that points directly at the content.
    const blob = await runGit(repo.tree, 'rev-parse', `${bad}:too big.bin`);
    await runGit(repo.tree, 'tag', 'content', blob);
    expect(await repo.refused('content')).toMatch(/the object [0-9a-f]{8} has 1\.0 MiB/);
    const small = await runGit(repo.tree, 'rev-parse', 'HEAD:README.md');
    await repo.setRule({ commit_message_regex: '.', file_name_regex: 'never' });
    await runGit(repo.tree, 'tag', 'small', small);
    await repo.accepted('small');
  });
});

describe('a rule for names and tags', () => {
  it('requires new branches to match, except the default branch', async () => {
    const repo = await setUp(null);
    await repo.accepted('main:odd');
    await repo.setRule({ branch_name_regex: '^(feature|fix)/' });
    expect(await repo.refused('main:wrong')).toContain(
      'the branch name does not match "^(feature|fix)/" (push rule branch_name_regex)',
    );
    await repo.refused('main:feature/fine', 'main:wrong');
    await repo.accepted('main:feature/x');
    await repo.commit('more');
    await repo.accepted('main', 'main:odd');
    await repo.accepted(':odd');
    const path = `/projects/${repo.project.id}/repository/branches`;
    const refusal = await repo.client.post(path, { branch: 'wrong', ref: 'main' });
    expect(refusal.status).toBe(403);
    expect(refusal.body.message).toContain('branch_name_regex');
    expect((await repo.client.get(`${path}/wrong`)).status).toBe(404);
    expect((await repo.client.post(path, { branch: 'fix/y', ref: 'main' })).status).toBe(201);
    const { data } = await repo.client.graphql(
      `mutation($path: ID!) { createBranch(input: { projectPath: $path, name: "wrong", ref: "main" }) { branch { name } errors } }`,
      { path: repo.project.path_with_namespace },
    );
    expect(data?.createBranch?.branch ?? null).toBeNull();
    expect((await repo.refs()).join()).not.toContain('wrong');
  });

  it('allows any name for the first branch of an empty project', async () => {
    const owner = await app().make.user();
    const project = await app().make.project({}, owner);
    await app().as(owner).post(`/projects/${project.id}/push_rule`, { branch_name_regex: '^feature/' });
    const tree = await workTree(folder(), 'trunk');
    const remote = await remoteOf(app(), project, owner);
    expect(await tryGit(tree, 'push', remote, 'trunk')).toMatchObject({ code: 0 });
    expect(await tryGit(tree, 'push', remote, 'trunk:second')).toMatchObject({ code: 1 });
  });

  it('protects tags from deletion', async () => {
    const repo = await setUp({ deny_delete_tag: true });
    await repo.accepted('main:refs/tags/v1');
    expect(await repo.refused(':refs/tags/v1')).toContain('tags cannot be deleted (push rule deny_delete_tag)');
    await repo.setRule({ deny_delete_tag: false });
    await repo.accepted(':refs/tags/v1');
  });

  it('checks unreachable commits again when the API creates a branch for them', async () => {
    const repo = await setUp(null);
    await repo.commit('bad');
    const bad = await runGit(repo.tree, 'rev-parse', 'HEAD');
    await repo.accepted('main:gone');
    await repo.accepted(':gone');
    await repo.setRule({ commit_message_regex: '^Good' });
    const path = `/projects/${repo.project.id}/repository/branches`;
    const answer = await repo.client.post(path, { branch: 'again', ref: bad });
    expect(answer.status).toBe(403);
    expect(answer.body.message).toContain(`commit ${bad.slice(0, 8)}: the message does not match`);
    expect((await repo.client.post(path, { branch: 'again', ref: 'main' })).status).toBe(201);
  });
});

describe('the rule in force', () => {
  it('is the rule of the project, else of the nearest group above, else none', async () => {
    const owner = await app().make.user();
    const top = await app().make.group({}, owner);
    const below = await app().make.group({ parent_id: top.id }, owner);
    const project = await app().make.project({ namespace_id: below.id }, owner);
    const client = app().as(owner);
    const tree = await workTree(folder());
    const remote = await remoteOf(app(), project, owner);
    const push = async (message: string) => {
      await runGit(tree, 'commit', '-q', '--allow-empty', '-m', message);
      const { code, stderr } = await tryGit(tree, 'push', remote, 'main');
      if (code !== 0) await runGit(tree, 'reset', '-q', '--hard', 'HEAD~1');
      return code === 0 ? 'accepted' : (/does not match "\^(\w+)"/.exec(stderr)?.[1] ?? stderr);
    };
    const rule = (place: string, name: string) =>
      client.post(`/${place}/push_rule`, { commit_message_regex: `^${name}` });
    expect(await push('anything')).toBe('accepted');
    await rule(`groups/${top.id}`, 'top');
    expect(await push('anything')).toBe('top');
    await rule(`groups/${below.id}`, 'below');
    expect(await push('top')).toBe('below');
    await rule(`projects/${project.id}`, 'own');
    expect(await push('below')).toBe('own');
    expect(await push('own')).toBe('accepted');
    // An empty rule also overrides the groups above.
    await client.put(`/projects/${project.id}/push_rule`, { commit_message_regex: '' });
    expect(await push('anything')).toBe('accepted');
    await client.delete(`/projects/${project.id}/push_rule`);
    expect(await push('own')).toBe('below');
    await client.delete(`/groups/${below.id}/push_rule`);
    expect(await push('own')).toBe('top');
    const elsewhere = await app().make.project({}, owner);
    const free = await remoteOf(app(), elsewhere, owner);
    expect(await tryGit(tree, 'push', free, 'main')).toMatchObject({ code: 0 });
  });

  it('ignores the commit that the hub itself makes in a new project', async () => {
    const owner = await app().make.user();
    const group = await app().make.group({}, owner);
    await app().as(owner).post(`/groups/${group.id}/push_rule`, { commit_message_regex: '^Never', member_check: true });
    const project = await app().make.project({ namespace_id: group.id, initialize_with_readme: true }, owner);
    expect((await app().as(owner).get(`/projects/${project.id}`)).body.empty_repo).toBe(false);
    const path = `/projects/${project.id}/repository/branches`;
    expect((await app().as(owner).post(path, { branch: 'more', ref: 'main' })).status).toBe(201);
  });

  it('applies to administrators and owners too', async () => {
    const repo = await setUp({ commit_message_regex: '^Good' });
    await repo.commit('bad');
    const people: TestUser[] = [repo.owner, app().root];
    for (const person of people) {
      const remote = await remoteOf(app(), repo.project, person);
      expect(await tryGit(repo.tree, 'push', remote, 'main')).toMatchObject({ code: 1 });
    }
  });
});
