import { tmpdir } from 'node:os';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { validFullRef, validRefName } from '#platform/git/ref-names.ts';
import { validFilePath } from '#platform/git/writing/file-plan.ts';
import { tryGit } from '../support/git.ts';

const gitAccepts = async (name: string): Promise<boolean> =>
  !name.includes('\0') && (await tryGit(tmpdir(), 'check-ref-format', `refs/heads/${name}`)).code === 0;

describe('branch and tag names', () => {
  it.each(['main', 'feature/x', 'v1.0', 'ünïcode', 'a@b', 'release-2024.1', '#12', "it's", 'a{b}', 'HEAD/x'])(
    'accepts %j',
    (name) => {
      expect(validRefName(name)).toBe(true);
    },
  );

  it.each([
    '',
    '-x',
    '--upload-pack=x',
    'a..b',
    'a@{1}',
    '@',
    'x.lock',
    'a.lock/b',
    '.a',
    'a/.b',
    'a.',
    '/a',
    'a/',
    'a//b',
    'a b',
    'a~1',
    'a^',
    'a:b',
    'a?',
    'a*',
    'a[',
    'a\\b',
    'a\u0000',
    'a\nb',
    'a\u007f',
    'HEAD',
    'refs/heads/x',
    'f'.repeat(40),
    'A'.repeat(64),
    'x'.repeat(251),
    `a/${'x'.repeat(251)}`,
    'x'.repeat(256),
    'é'.repeat(128),
    '\ud800',
  ])('refuses %j', (name) => {
    expect(validRefName(name)).toBe(false);
  });

  it('never accepts a name that git refuses', async () => {
    const alphabet = fc.constantFrom(
      ...'ab0./-@{}~^:?*[\\ \n\u0001\u007fé',
      '.lock',
      '..',
      '@{',
      '//',
      'HEAD',
      'refs/',
    );
    const names = fc.array(alphabet, { minLength: 1, maxLength: 6 }).map((parts) => parts.join(''));
    await fc.assert(
      fc.asyncProperty(names, async (name) => !validRefName(name) || gitAccepts(name)),
      { numRuns: 300 },
    );
  });

  it('accepts every name that git accepts, except ambiguous ones', async () => {
    const names = fc.stringMatching(/^[a-z0-9./@{_-]{1,8}$/);
    const isAmbiguous = (name: string) => name.startsWith('-') || name.startsWith('refs/') || name === '@';
    await fc.assert(
      fc.asyncProperty(names, async (name) => validRefName(name) || isAmbiguous(name) || !(await gitAccepts(name))),
      { numRuns: 300 },
    );
  });

  it('writes only branches, tags and its own refs', () => {
    expect(validFullRef('refs/heads/main')).toBe(true);
    expect(validFullRef('refs/tags/v1')).toBe(true);
    expect(validFullRef('refs/merge-requests/1/head')).toBe(true);
    expect(validFullRef(`refs/keep-around/${'a'.repeat(40)}`)).toBe(true);
    for (const ref of ['main', 'HEAD', 'refs/replace/x', 'refs/heads/', 'refs/merge-requests/../x', 'refs/notes/x']) {
      expect(validFullRef(ref)).toBe(false);
    }
  });
});

describe('file paths', () => {
  it.each(['README.md', 'a/b/c.txt', '.gitignore', 'ünï code.txt', '.github/x', 'git~x'])(
    'accepts the path %j',
    (path) => {
      expect(validFilePath(path)).toBe(true);
    },
  );

  it.each([
    '',
    '/etc/passwd',
    '../x',
    'a/../b',
    'a//b',
    './a',
    'a/',
    '.git/config',
    'a/.GIT/hooks/x',
    '.git. /x',
    'git~1/config',
    '.git::$DATA',
    '.g\u200cit/config',
    'a\\b',
    'a\u0000b',
    'a\nb',
  ])('refuses the path %j', (path) => {
    expect(validFilePath(path)).toBe(false);
  });
});
