import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { filledProject } from './reading-support.ts';
import { runGit, useFolder } from './support.ts';

const app = useApp();
const folder = useFolder();

/** Makes `main` a merge of `side`, and `v1.0` an annotated tag of the commit before it. */
const setUp = async () => {
  const filled = await filledProject(app(), folder(), { a: '1' });
  const { tree, remote, commit } = filled;
  await runGit(tree, 'tag', '-a', 'v1.0', '-m', 'One');
  await runGit(tree, 'checkout', '-q', '-b', 'side');
  await commit({ b: '1' }, 'On the side');
  await runGit(tree, 'checkout', '-q', 'main');
  await commit({ a: '2' }, 'On main');
  await runGit(tree, 'merge', '-q', '--no-ff', '-m', 'Merge', 'side');
  await runGit(tree, 'push', '-q', remote, 'main', 'v1.0');
  const idOf = (revision: string) => runGit(tree, 'rev-parse', revision);
  return { ...filled, client: app().as(filled.owner), idOf };
};

describe('a revision', () => {
  it('may go back from a branch, a tag, an id or HEAD, as in git', async () => {
    const { client, path, idOf } = await setUp();
    const head = await idOf('main');
    const expressions = [
      'main~1',
      'main~',
      'main^',
      'main^2',
      'main^1~1',
      'main~2^0',
      'HEAD^',
      '@~2',
      'side^^',
      'v1.0^{commit}',
      'v1.0^{}',
      'v1.0~1',
      'refs/heads/main~1',
      'refs/tags/v1.0^',
      `${head}^2`,
      `${head.slice(0, 10)}~1`,
    ];
    for (const expression of expressions) {
      const answer = await client.get(path(`/commits/${encodeURIComponent(expression)}`));
      const id = await idOf(`${expression.replace('^{}', '^{commit}')}^{commit}`);
      expect([expression, answer.status, answer.body.id]).toEqual([expression, 200, id]);
    }
  });

  it('is accepted wherever a revision is expected', async () => {
    const { client, path, idOf, project } = await setUp();
    const [main, before, side, start] = await Promise.all(['main', 'main~1', 'main^2', 'main~2'].map(idOf));
    const listed = await client.get(path('/commits?ref_name=main~1'));
    expect(listed.body[0].id).toBe(before);
    const range = await client.get(path('/commits?ref_name=main~1..main'));
    expect(range.body.map((each: { id: string }) => each.id)).toEqual([main, side]);
    const compared = await client.get(path('/compare?from=main~2&to=main^2'));
    expect([compared.status, compared.body.commit.id]).toEqual([200, side]);
    expect((await client.get(path('/merge_base?refs[]=main~1&refs[]=main^2'))).body.id).toBe(start);
    expect((await client.get(path('/contributors?ref=main~2'))).body).toMatchObject([{ commits: 2 }]);
    const names = (await client.get(path('/tree?ref=main~1'))).body.map((each: { name: string }) => each.name);
    expect(names).toEqual(['README.md', 'a']);
    const file = await client.get(path('/files/a?ref=main~2'));
    expect(file.body).toMatchObject({ commit_id: start, content: Buffer.from('1').toString('base64'), ref: 'main~2' });
    expect((await client.get(path('/files/a/raw?ref=v1.0^{commit}'))).body).toBe('1');
    const archive = await client.head(path('/archive.zip?sha=main~1'));
    expect([archive.status, archive.headers.get('content-disposition')]).toEqual([
      200,
      expect.stringContaining(`${project.path}-main~1-${before}.zip`),
    ]);
    const made = await client.post(path('/branches'), { branch: 'older', ref: 'main~1' });
    expect([made.status, made.body.commit.id]).toEqual([201, before]);
    const tag = await client.post(path('/tags'), { tag_name: 'v0.9', ref: 'v1.0^' });
    expect([tag.status, tag.body.target]).toEqual([201, await idOf('v1.0^')]);
    const answer = await client.graphql(
      `query ($path: ID!) { project(fullPath: $path) { repository {
         commit(ref: "main~1") { sha } none: commit(ref: "main~9") { sha } } } }`,
      { path: project.path_with_namespace },
    );
    expect(answer.data.project.repository).toEqual({ commit: { sha: before }, none: null });
  });

  it('is not found if it goes past the first commit or starts nowhere', async () => {
    const { client, path, idOf } = await setUp();
    const expressions = ['main~9', 'main^3', 'main~10000', 'none~1', 'none^{commit}', `${await idOf('main:a')}^`];
    for (const expression of expressions) {
      const answer = await client.get(path(`/commits/${encodeURIComponent(expression)}`));
      expect([expression, answer.status, answer.body]).toEqual([expression, 404, { message: '404 Commit Not Found' }]);
      const branch = await client.post(path('/branches'), { branch: 'new', ref: expression });
      expect([expression, branch.status, branch.body.message]).toEqual([
        expression,
        400,
        `Invalid reference name: ${expression}`,
      ]);
    }
  });

  it('is refused with a reason if it has any other form, and runs nothing', async () => {
    const { client, path } = await setUp();
    const expressions = [
      'main@{1}',
      'main@{yesterday}',
      'main@{upstream}',
      '@{-1}',
      'main^{tree}',
      'main^{/merge}',
      ':/merge',
      'main:a',
      ':a',
      '^main',
      '~1',
      'main^!',
      'main^@',
      'main^-',
      'main~-1',
      'main~1\n--all',
      'main~1 --all',
      'main~10001',
      `main${'~9999'.repeat(2)}`,
      `main${'^'.repeat(101)}`,
      'main~999999999999999999999999',
      'main^9999999999',
    ];
    for (const expression of expressions) {
      const answers = await Promise.all([
        client.get(path(`/commits/${encodeURIComponent(expression)}`)),
        client.get(path(`/tree?ref=${encodeURIComponent(expression)}`)),
        client.get(path(`/compare?from=main&to=${encodeURIComponent(expression)}`)),
        client.get(path(`/archive?sha=${encodeURIComponent(expression)}`)),
        client.post(path('/branches'), { branch: 'new', ref: expression }),
      ]);
      expect([expression, ...answers.map(({ status }) => status)]).toEqual([expression, 400, 400, 400, 400, 400]);
      expect(answers[0].body.message).toMatch(
        /^400 Bad request - (A branch, tag or commit id can be|A revision can go)/,
      );
    }
    expect((await client.get(path('/branches/new'))).status).toBe(404);
    expect((await client.get(path('/commits/main'))).status).toBe(200);
  });

  it('never resolves hidden refs', async () => {
    const { client, path, project, idOf } = await setUp();
    const { git } = app().hub.services;
    const { disk_path } = await app()
      .hub.services.db.selectFrom('projects')
      .select('disk_path')
      .where('id', '=', project.id)
      .executeTakeFirstOrThrow();
    const newOid = await idOf('main');
    await git.updateRefs(disk_path, [
      { ref: 'refs/keep-around/kept', newOid },
      { ref: 'refs/merge-requests/1/head', newOid },
    ]);
    for (const hidden of ['refs/keep-around/kept', 'keep-around/kept', 'refs/merge-requests/1/head']) {
      for (const steps of ['~1', '^{commit}', '']) {
        const answer = await client.get(path(`/commits/${encodeURIComponent(hidden + steps)}`));
        expect([hidden, steps, answer.status]).toEqual([hidden, steps, 404]);
      }
    }
  });

  it('reveals no more to strangers than any other name', async () => {
    const { path, project } = await setUp();
    const [guest, stranger] = [await app().make.user(), await app().make.user()];
    await app().make.projectMember(project, guest, 10);
    for (const expression of ['main~1', 'main~99', 'main@{1}']) {
      const url = path(`/commits/${encodeURIComponent(expression)}`);
      const clients = [app().anonymous, app().as(stranger), app().as(guest)];
      const statuses = await Promise.all(clients.map(async (client) => (await client.get(url)).status));
      expect([expression, statuses]).toEqual([expression, [404, 404, 403]]);
    }
  });
});
