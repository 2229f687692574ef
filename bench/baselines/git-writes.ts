import { execFile } from 'node:child_process';
import { createServer } from 'node:http';
import { announce } from './announce.ts';

// The minimum for a write: a shell runs the git commands that make the change and read the data of the hub's response,
// one after the other and as durably as the hub. No callers, no permissions, no events. The other files in the folder
// are prepared in advance.
const SCRIPTS: Readonly<Record<string, string>> = {
  file: `
    blob=$(echo "$N" | git hash-object -w --stdin)
    tree=$({ cat "$DIR/others-1"; printf '100644 blob %s\\tfile-10.txt\\n' "$blob"; } | git mktree)
    git update-ref refs/heads/main "$(git commit-tree -p refs/heads/main -m Change "$tree")"`,
  files: `
    for i in $(seq 10 29); do echo "$N $i" > "$DIR/file-$i.txt"; echo "$DIR/file-$i.txt"; done > "$DIR/paths"
    i=10
    tree=$({ cat "$DIR/others-20"; git hash-object -w --stdin-paths < "$DIR/paths" | while read -r blob; do
      printf '100644 blob %s\\tfile-%s.txt\\n' "$blob" "$i"; i=$((i + 1)); done; } | git mktree)
    git update-ref refs/heads/main "$(git commit-tree -p refs/heads/main -m Change "$tree")"
    git log -1 --numstat main`,
  branch: 'git update-ref "refs/heads/branch-$N" refs/heads/main; git cat-file commit "refs/heads/branch-$N"',
  tag: 'git update-ref "refs/tags/tag-$N" refs/heads/main; git cat-file commit "refs/tags/tag-$N"',
  read: 'git rev-parse main main:file-10.txt; git cat-file blob main:file-10.txt; git log -1 --format=%H main -- file-10.txt',
  tree: 'git ls-tree main',
};

const IDENTITY = { NAME: 'Person', EMAIL: 'person@example.com' };
const env = {
  PATH: process.env.PATH,
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_CONFIG_GLOBAL: '/dev/null',
  GIT_CONFIG_COUNT: '2',
  GIT_CONFIG_KEY_0: 'core.fsync',
  GIT_CONFIG_VALUE_0: 'committed',
  GIT_CONFIG_KEY_1: 'core.fsyncMethod',
  GIT_CONFIG_VALUE_1: 'batch',
  ...Object.fromEntries(
    ['AUTHOR', 'COMMITTER'].flatMap((role) =>
      Object.entries(IDENTITY).map(([key, value]) => [`GIT_${role}_${key}`, value]),
    ),
  ),
};

const server = createServer((request, response) => {
  const { pathname, searchParams } = new URL(request.url ?? '/', 'http://localhost');
  const directory = `${process.env.REPOSITORIES}/${searchParams.get('worker')}.git`;
  const options = { env: { ...env, GIT_DIR: directory, DIR: directory, N: searchParams.get('n') ?? '' } };
  execFile('sh', ['-e', '-c', SCRIPTS[pathname.slice(1)] ?? 'exit 1'], options, (error, stdout) => {
    response.writeHead(error ? 500 : 200).end(error ? String(error) : stdout);
  });
});
announce(server);
