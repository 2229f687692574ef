import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { createOwnersMatcher } from '#domains/approvals/code-owners/match.ts';
import { type CodeOwnersEntry, parseCodeOwners } from '#domains/approvals/code-owners/parse.ts';

const owned = async (text: string, ...paths: string[]) =>
  (await createOwnersMatcher(parseCodeOwners(text).entries).owning(paths)).entries.map(
    ({ section, pattern }) => `${section}:${pattern}`,
  );

const owns = async (pattern: string, path: string): Promise<boolean> => (await owned(`${pattern} @a`, path)).length > 0;

describe('CODEOWNERS', () => {
  it('reads sections, counts, optional ones, defaults and comments', () => {
    const { entries, problems } = parseCodeOwners(`
# comment
* @all
[Docs][2] @writers docs@example.com
README.md
*.md @ada @@maintainer # the rest is a comment @nobody
^[Optional]
/src/ @group/sub

[docs]
last.md
`);
    expect(problems).toEqual([]);
    const plain = { approvals: 1, optional: false, exclusion: false };
    expect(entries).toEqual([
      { ...plain, pattern: '*', section: 'codeowners', owners: ['@all'] },
      { ...plain, pattern: 'README.md', section: 'Docs', owners: ['@writers', 'docs@example.com'], approvals: 2 },
      { ...plain, pattern: '*.md', section: 'Docs', owners: ['@ada', '@@maintainer'], approvals: 2 },
      { ...plain, pattern: '/src/', section: 'Optional', owners: ['@group/sub'], optional: true },
      { ...plain, pattern: 'last.md', section: 'Docs', owners: [] },
    ]);
  });

  it('requires a section that is optional in one place and not in another', () => {
    const { entries } = parseCodeOwners('^[A]\na @x\n[a]\nb @x');
    expect(entries.map(({ optional }) => optional)).toEqual([false, false]);
  });

  it('names the lines that it cannot understand', () => {
    const { problems, entries } = parseCodeOwners('[] @a\n[A][0]\n[B][x]\n[open @a\nfile who\n');
    expect(problems).toEqual([
      { code: 'missing_section_name', line: 1 },
      { code: 'invalid_approval_requirement', line: 2 },
      { code: 'invalid_approval_requirement', line: 3 },
      { code: 'invalid_section_format', line: 4 },
      { code: 'invalid_entry_owner_format', line: 5 },
    ]);
    expect(entries.at(-1)).toMatchObject({ pattern: 'file', section: 'B', owners: [] });
  });

  it.each([
    ['*', 'a/b/.c', true],
    ['*.md', 'a.md', true],
    ['*.md', 'docs/.hidden.md', true],
    ['/*.md', 'docs/a.md', false],
    ['/docs/', 'docs/a/b', true],
    ['docs/', 'x/docs/a', true],
    ['/docs/', 'docs', false],
    ['/docs/*', 'docs/a/b', false],
    ['/docs/*', 'docs/a', true],
    ['/docs/**', 'docs/a/b', true],
    ['/docs/**/index.md', 'docs/index.md', true],
    ['/docs/**/index.md', 'docs/a/b/index.md', true],
    ['/docs/**/index.md', 'docs/xindex.md', false],
    ['docs', 'docs/a', false],
    ['\\#file', '#file', true],
    ['path\\ with\\ spaces/', 'path with spaces/a', true],
    ['file?.[a-c!]', 'file1.b', true],
    ['file?.[!a-c]', 'file1.b', false],
    ['[ab].txt', 'a.txt', true],
    ['a[', 'a[', true],
    ['\\*', 'x', false],
    ['\\*', '*', true],
    ['é*', 'ééé', true],
    ['a//b', 'a/b', false],
  ])('%s owns %s: %s', async (pattern, path, expected) => {
    expect(await owns(pattern, path)).toBe(expected);
  });

  it('takes the last match of each section, and an exclusion over all of its section', async () => {
    const text = `
* @a
*.rb @b
[Other]
* @c
!*.rb
app/ @d
`;
    expect(await owned(text, 'app/x.rb')).toEqual(['codeowners:*.rb']);
    expect(await owned(text, 'app/x.txt')).toEqual(['codeowners:*', 'Other:app/']);
    expect(await owned(text, 'x.rb', 'y')).toEqual(['codeowners:*', 'codeowners:*.rb', 'Other:*']);
    expect(await owned(text)).toEqual([]);
  });

  it('agrees with a naive matcher', async () => {
    const name = fc.stringMatching(/^[ab.]{1,4}$/);
    const path = fc.array(name, { minLength: 1, maxLength: 4 }).map((names) => names.join('/'));
    const segment = fc.oneof(fc.stringMatching(/^[ab.*?]{1,4}$/), fc.constantFrom('**', '*', '[ab]', '[!a]*', '\\*'));
    const pattern = fc
      .tuple(fc.constantFrom('', '/'), fc.array(segment, { minLength: 1, maxLength: 4 }), fc.constantFrom('', '/'))
      .map(([start, segments, end]) => start + segments.join('/') + end);
    const entry = fc.record({ pattern, section: fc.constantFrom('A', 'B'), exclusion: fc.boolean() });
    await fc.assert(
      fc.asyncProperty(fc.array(entry, { maxLength: 6 }), fc.array(path, { maxLength: 6 }), async (given, paths) => {
        const entries: CodeOwnersEntry[] = given.map((each) => ({
          ...each,
          owners: ['@a'],
          approvals: 1,
          optional: false,
        }));
        const { entries: found } = await createOwnersMatcher(entries).owning(paths);
        expect(found).toEqual(naive(entries, paths));
      }),
      { numRuns: 300 },
    );
  });

  it('stays fast with catastrophic patterns, and names every owner when it has to stop', async () => {
    const evil = `${'*a'.repeat(200)}b`;
    const name = 'a'.repeat(255);
    const { entries } = parseCodeOwners(
      Array.from({ length: 2_000 }, (_, at) => `${'**/*a/'.repeat(20)}${at}${evil} @a`).join('\n'),
    );
    const deep = Array.from({ length: 500 }, (_, at) => `${`${name}/`.repeat(40)}${at}`);
    const matched = await createOwnersMatcher(entries).owning(deep, { maxSteps: 20_000 });
    expect(matched).toEqual({ entries, isExact: false });
  });
});

/** Follows the definition with plain recursion. Only for short patterns and paths. */
const naive = (entries: readonly CodeOwnersEntry[], paths: readonly string[]): readonly CodeOwnersEntry[] => {
  const found = new Set<CodeOwnersEntry>();
  for (const path of paths) {
    for (const section of ['A', 'B']) {
      const matching = entries.filter((entry) => entry.section === section && naiveOwns(entry.pattern, path));
      const last = matching.at(-1);
      if (last && !matching.some(({ exclusion }) => exclusion)) found.add(last);
    }
  }
  return entries.filter((entry) => found.has(entry));
};

const naiveOwns = (pattern: string, path: string): boolean => {
  const isRooted = pattern.startsWith('/');
  const segments = (isRooted ? pattern.slice(1) : pattern).split('/');
  if (segments.at(-1) === '') segments.splice(-1, 1, '**');
  return walk(isRooted ? segments : ['**', ...segments], path.split('/'));
};

const walk = ([segment, ...rest]: readonly string[], names: readonly string[]): boolean => {
  if (segment === undefined) return names.length === 0;
  const [name, ...others] = names;
  if (segment === '**') {
    if (rest.length === 0) return names.length > 0;
    return walk(rest, names) || (names.length > 0 && walk([segment, ...rest], others));
  }
  return name !== undefined && glob(segment, name) && walk(rest, others);
};

const glob = (pattern: string, name: string): boolean => {
  if (pattern === '') return name === '';
  const [first, ...rest] = pattern;
  if (first === '*') return glob(rest.join(''), name) || (name !== '' && glob(pattern, name.slice(1)));
  if (name === '') return false;
  if (first === '\\') return rest[0] === name[0] && glob(rest.slice(1).join(''), name.slice(1));
  if (first === '[') {
    const end = pattern.indexOf(']');
    const set = pattern.slice(1, end);
    const isIn = set.startsWith('!') ? !set.slice(1).includes(name[0] ?? '') : set.includes(name[0] ?? '');
    return isIn && glob(pattern.slice(end + 1), name.slice(1));
  }
  return (first === '?' || first === name[0]) && glob(rest.join(''), name.slice(1));
};
