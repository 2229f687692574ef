/**
 * Returns the payload of `push.received` for a push of three commits: about 3.4 KB on the wire. It goes to another
 * branch than the default one. Otherwise each push would also start a job that looks for issues to close, in a
 * repository that does not exist here, and the measurement would contain the retries of these jobs.
 */
export const pushPayload = (userId: number) => ({
  ref: 'refs/heads/topic',
  before: '1'.repeat(40),
  after: '2'.repeat(40),
  checkout_sha: '2'.repeat(40),
  ref_protected: false,
  message: null,
  commits: Array.from({ length: 3 }, (_, i) => ({
    id: String(i).repeat(40),
    message: `Change number ${i}\n\n${'With a reason that takes a few lines to explain. '.repeat(4)}`,
    title: `Change number ${i}`,
    timestamp: '2026-01-02T03:04:05+00:00',
    url: `http://127.0.0.1/bench/team-1/project-1/-/commit/${String(i).repeat(40)}`,
    author: { name: 'Bench User 1', email: 'bench-1@example.com' },
    added: ['docs/added.md'],
    modified: ['src/modified.ts', 'src/another.ts'],
    removed: [],
  })),
  total_commits_count: 3,
  fires_hooks: true,
  user: { id: userId, name: 'Bench User 1', username: 'bench-1', email: 'bench-1@example.com', avatar_url: null },
  project: {
    id: 1,
    name: 'Project 1',
    description: 'The project number 1 of Team 1, with a description of usual length.',
    web_url: 'http://127.0.0.1/bench/team-1/project-1',
    avatar_url: null,
    git_ssh_url: 'git@127.0.0.1:bench/team-1/project-1.git',
    git_http_url: 'http://127.0.0.1/bench/team-1/project-1.git',
    namespace: 'Team 1',
    visibility_level: 0,
    path_with_namespace: 'bench/team-1/project-1',
    default_branch: 'main',
  },
  repository: {
    name: 'Project 1',
    url: 'git@127.0.0.1:bench/team-1/project-1.git',
    description: 'The project number 1 of Team 1, with a description of usual length.',
    homepage: 'http://127.0.0.1/bench/team-1/project-1',
    visibility_level: 0,
  },
});
