import { describe, expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { filledProject } from './reading-support.ts';
import { runGit, useFolder } from './support.ts';

const app = useApp();
const folder = useFolder();

const TREE = `query ($path: ID!, $folder: String, $ref: String, $recursive: Boolean) {
  project(fullPath: $path) {
    repository {
      diskPath
      tree(path: $folder, ref: $ref, recursive: $recursive) {
        lastCommit { sha }
        trees { count nodes { name type path sha webPath } }
        blobs(first: 2) { nodes { path mode webUrl } pageInfo { hasNextPage endCursor } }
        submodules { nodes { path } }
      }
    }
  }
}`;
const BLOBS = `query ($path: ID!, $paths: [String!]!, $ref: String) {
  project(fullPath: $path) {
    repository { blobs(paths: $paths, ref: $ref) { nodes { oid name path mode size rawSize rawTextBlob rawBlob rawPath webPath } } }
  }
}`;
const PAGES = `query ($path: ID!, $after: String) {
  project(fullPath: $path) {
    repository {
      paginatedTree(recursive: true, first: 2, after: $after) {
        nodes { trees { nodes { path } } blobs { nodes { path } } }
        pageInfo { hasNextPage endCursor }
      }
    }
  }
}`;

describe('the tree of a repository', () => {
  it('is shown by folder, by page and by path to users who may read the code', async () => {
    const files = { 'docs/a': '1', 'docs/deep/b': '2', 'x y': 'text', z: Buffer.from([0, 1]) };
    const { owner, project, tree, path, commit } = await filledProject(app(), folder(), files);
    const head = await commit({ z2: '5' }, 'Later');
    const before = await runGit(tree, 'rev-parse', 'HEAD~1');
    const fullPath = project.path_with_namespace;
    const client = app().as(owner);
    const read = async (variables: Record<string, unknown>) =>
      (await client.graphql(TREE, { path: fullPath, ...variables })).data.project.repository;
    const root = await read({});
    expect(root.diskPath).toBeNull();
    expect(root.tree).toEqual({
      lastCommit: { sha: head },
      trees: {
        count: 1,
        nodes: [
          {
            name: 'docs',
            type: 'tree',
            path: 'docs',
            sha: await runGit(tree, 'rev-parse', 'HEAD:docs'),
            webPath: `/${fullPath}/-/tree/main/docs`,
          },
        ],
      },
      blobs: {
        nodes: [
          { path: 'README.md', mode: '100644', webUrl: `${app().url}/${fullPath}/-/blob/main/README.md` },
          { path: 'x y', mode: '100644', webUrl: `${app().url}/${fullPath}/-/blob/main/x%20y` },
        ],
        pageInfo: { hasNextPage: true, endCursor: expect.any(String) },
      },
      submodules: { nodes: [] },
    });
    const docs = (await read({ folder: 'docs', recursive: true })).tree;
    expect(docs.lastCommit.sha).toBe(before);
    expect(docs.blobs.nodes.map((each: { path: string }) => each.path)).toEqual(['docs/a', 'docs/deep/b']);
    // Editors of content ask for the last commit of each of their files in this way.
    const noFiles = { nodes: [], pageInfo: { hasNextPage: false, endCursor: null } };
    const [file, oldFile] = [
      (await read({ folder: 'z2' })).tree,
      (await read({ folder: 'docs/a', recursive: true })).tree,
    ];
    const empty = { trees: { count: 0, nodes: [] }, blobs: noFiles, submodules: { nodes: [] } };
    expect([file, oldFile]).toEqual([
      { lastCommit: { sha: head }, ...empty },
      { lastCommit: { sha: before }, ...empty },
    ]);
    expect((await read({ folder: 'absent' })).tree).toBeNull();
    expect((await read({ folder: '../x', ref: '--all' })).tree).toBeNull();

    const { data } = await client.graphql(BLOBS, { path: fullPath, paths: ['z', 'x y', 'docs', 'absent', '../x'] });
    expect(data.project.repository.blobs.nodes).toMatchObject([
      { name: 'z', size: '2', rawTextBlob: null, rawBlob: null },
      { name: 'x y', rawSize: '4', rawTextBlob: 'text', rawPath: `/${fullPath}/-/raw/main/x%20y` },
    ]);
    const many = await client.graphql(BLOBS, { path: fullPath, paths: Array.from({ length: 101 }, (_, n) => `${n}`) });
    expect(many.errors?.[0]?.message).toContain('at most 100');

    const seen: string[] = [];
    let after: string | null = null;
    for (let pages = 0; pages < 9; pages++) {
      const answer = await client.graphql(PAGES, { path: fullPath, after });
      const { nodes, pageInfo } = answer.data.project.repository.paginatedTree;
      for (const { trees, blobs } of nodes) {
        for (const each of [...trees.nodes, ...blobs.nodes]) seen.push(each.path);
      }
      after = pageInfo.endCursor;
      if (!pageInfo.hasNextPage) break;
    }
    const all = await client.get(path('/tree?recursive=true'));
    expect(seen).toEqual(all.body.map((each: { path: string }) => each.path));

    const guest = await app().make.user();
    await app().make.projectMember(project, guest, 10);
    expect((await app().as(guest).graphql(TREE, { path: fullPath })).data.project.repository).toBeNull();
    expect((await app().anonymous.graphql(TREE, { path: fullPath })).data.project).toBeNull();
    const asRoot = await app().as(app().root).graphql(TREE, { path: fullPath });
    expect(asRoot.data.project.repository.diskPath).toMatch(/\.git$/);
  });
});

describe('every reading endpoint', () => {
  it('refuses hostile names, and keeps answering', async () => {
    const { owner, path } = await filledProject(app(), folder(), { a: '1' });
    const client = app().as(owner);
    const names = [
      '-h',
      '--all',
      '--output=/tmp/x',
      '..',
      'a..b..c',
      '../../etc/passwd',
      '/etc/passwd',
      './a',
      'a/./b',
      'a//b',
      'HEAD@{1}',
      'main~99',
      'main^{tree}',
      ':/first',
      ':a',
      'main:a',
      ':(top)a',
      '*',
      'a\nb',
      'a\rb',
      'a\u0001b',
      '\u202e',
      'x'.repeat(300),
      '0'.repeat(40),
      'f'.repeat(40),
      'f'.repeat(64),
      '.git/config',
      'refs/heads/--x',
      'refs/../x',
      '@{-1}',
      '%',
      "';--",
    ];
    const routes = (name: string) => [
      `/commits?ref_name=${name}`,
      `/commits?path=${name}`,
      `/commits?author=${name}`,
      `/commits/${name}`,
      `/commits/${name}/diff`,
      `/commits/${name}/refs`,
      `/files/${name}?ref=main`,
      `/files/a?ref=${name}`,
      `/files/${name}/raw?ref=${name}`,
      `/files/${name}/blame?ref=main`,
      `/blobs/${name}`,
      `/tree?path=${name}&ref=main`,
      `/tree?ref=${name}`,
      `/tree?pagination=keyset&page_token=${name}`,
      `/compare?from=${name}&to=main`,
      `/compare?from=main&to=${name}&straight=true`,
      `/merge_base?refs[]=main&refs[]=${name}`,
      `/contributors?ref=${name}`,
      `/archive.zip?sha=${name}`,
      `/archive?path=${name}`,
    ];
    const wrong: unknown[] = [];
    for (const name of names) {
      const ask = async (url: string) => {
        const { status, body } = await client.get(path(url));
        const finds = url.startsWith('/commits?path=') || url.startsWith('/commits?author=');
        // Two dots form an empty range from the default branch to itself.
        const isEmpty = (finds || url === '/commits?ref_name=..') && status === 200;
        const said = JSON.stringify(body);
        if (status !== 400 && status !== 404 && !isEmpty) wrong.push([url, status, said.slice(0, 200)]);
        if (/\/(?:tmp|home|var)\/|fatal:/.test(said.replaceAll('/tmp/x', ''))) wrong.push([url, said]);
      };
      await Promise.all(routes(encodeURIComponent(name)).map(ask));
    }
    expect(wrong).toEqual([]);
    expect((await client.get(path('/files/a/raw'))).body).toBe('1');
  });
});
