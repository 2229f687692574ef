import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { compileGlob } from '#domains/ci-config/globs.ts';
import { anyMatches, matchingPaths } from '#domains/ci-config/path-globs.ts';
import { compileRegex } from '#domains/ci-config/regular-expressions.ts';
import { readDuration, readExpiry } from '#platform/values/durations.ts';
import { computedMs } from '../support/computed-ms.ts';

describe('a duration', () => {
  it.each([
    ['42', 42],
    ['42 seconds', 42],
    ['3 mins 4 sec', 184],
    ['2 hrs 20 min', 8_400],
    ['2h20min', 8_400],
    ['3h 30 min', 12_600],
    ['6 mos 1 day', 15_638_400],
    ['47 yrs 6 mos and 4d', 1_499_104_800],
    ['3 weeks and 2 days', 1_987_200],
    ['1 week and 2 days', 777_600],
    ['1.5 hours', 5_400],
    ['1 Week, 1 Day', 691_200],
    ['1:30:00', 5_400],
    ['1 week 2', 604_802],
    ['0', 0],
  ])('%s has %i seconds', (text, seconds) => {
    expect(readDuration(text)).toBe(seconds);
  });

  it.each(['', 'x', 'never', '1 fortnight', '-1', 'week', '1 constructor', '1e9', '9'.repeat(50), '1d'.repeat(80)])(
    'is refused: %s',
    (text) => {
      expect(readDuration(text)).toBeNull();
    },
  );

  it('of artifacts may be never', () => {
    expect(readExpiry('never')).toBeNull();
    expect(readExpiry('1 day')).toBe(86_400);
    expect(readExpiry('soon')).toBeUndefined();
    expect(readExpiry('1001 years')).toBeUndefined();
  });
});

describe('a glob', () => {
  it.each([
    ['*.md', 'README.md', true],
    ['*.md', 'docs/a.md', false],
    ['docs/*', 'docs/a.md', true],
    ['docs/*', 'docs/a/b.md', false],
    ['docs/**/*', 'docs/a.md', true],
    ['docs/**/*', 'docs/a/b/c.md', true],
    ['docs/**', 'docs/a/b/c.md', true],
    ['**/*.rb', 'a.rb', true],
    ['**/*.rb', 'x/y/a.rb', true],
    ['**/*.rb', 'x/y/a.py', false],
    ['*.{rb,py,{sh,bash}}', 'a.bash', true],
    ['*.{rb,py}', 'a.js', false],
    ['{a,b}/**/{c,d}.txt', 'b/x/d.txt', true],
    ['src/?.c', 'src/a.c', true],
    ['src/?.c', 'src/ab.c', false],
    ['src/[a-c].c', 'src/b.c', true],
    ['src/[^a-c].c', 'src/b.c', false],
    ['**/*', '.hidden/file', true],
    ['*', '.env', true],
    ['a.b', 'axb', false],
    ['a(b)+', 'a(b)+', true],
    ['\\*', '*', true],
    ['{a', '{a', true],
    ['[a', '[a', true],
    ['a**b', 'aXb', true],
    ['a**b', 'a/b', false],
  ])('%s and %s: %s', (glob, path, isMatch) => {
    expect(compileGlob(glob)?.(path)).toBe(isMatch);
  });

  it('without signs matches only itself', () => {
    const name = fc.string({
      unit: fc.constantFrom('a', 'b', '.', '-', '/', '+', '(', '$', '^', '|'),
      minLength: 1,
      maxLength: 12,
    });
    fc.assert(
      fc.property(name, name, (glob, path) => {
        expect(compileGlob(glob)?.(path)).toBe(glob === path);
      }),
    );
  });

  it('is one of a list whose paths may start with / or ./', async () => {
    expect(await anyMatches(['src/a.ts', 'b'], ['/b'])).toBe(true);
    expect(await anyMatches(['src/a.ts'], ['./src/*.ts'])).toBe(true);
    expect(await anyMatches(['src/a.ts'], ['*.ts', 'src'])).toBe(false);
    expect(await matchingPaths(['ci/a.yml', 'ci/b.yml', 'c.yml'], '/ci/*.yml')).toEqual(['ci/a.yml', 'ci/b.yml']);
    expect(await matchingPaths(['ci/a.yml'], 'ci/a.yml')).toEqual(['ci/a.yml']);
  });

  it('takes linear time', () => {
    const started = computedMs();
    expect(compileGlob(`${'*a'.repeat(30)}b`)?.('a'.repeat(2_000))).toBe(false);
    expect(compileGlob('{a,b}'.repeat(60))?.('a'.repeat(60))).toBe(true);
    expect(compileGlob('**/'.repeat(100))?.(`${'x/'.repeat(300)}x`)).toBe(false);
    expect(compileGlob('x'.repeat(1_001))).toBeNull();
    expect(computedMs() - started).toBeLessThan(3_000);
  });
});

describe('a regular expression', () => {
  it('has flags after the slash', () => {
    expect(compileRegex('/^ab$/i')?.('AB')).toBe(true);
    expect(compileRegex('/^b$/m')?.('a\nb')).toBe(true);
    expect(compileRegex('/a.b/')?.('a\nb')).toBe(false);
    expect(compileRegex('/a.b/s')?.('a\nb')).toBe(true);
    expect(compileRegex('/a\\/b/')?.('a/b')).toBe(true);
    expect(compileRegex('ab')).toBeNull();
    expect(compileRegex('/ab/x')).toBeNull();
  });
});
