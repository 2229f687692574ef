import { describe, expect, it } from 'vitest';
import { namespacePathProblems } from '#domains/users/namespace-path.ts';

describe('the path of a namespace', () => {
  it.each(['a', 'A1', '_x', '.x', 'a.b-c_d', '123', 'git', 'x.gitx'])('may be %s', (path) => {
    expect(namespacePathProblems(path, { topLevel: true })).toEqual([]);
  });

  it.each(['', '-a', 'a.', '.', '..', 'a.git', 'a.GIT', 'a.atom', 'a b', 'a/b', 'ä', 'a\n', 'a\0', 'x'.repeat(256)])(
    'may not be %j',
    (path) => {
      expect(namespacePathProblems(path, { topLevel: false })).toHaveLength(1);
    },
  );

  it('may be a reserved word only below the top level', () => {
    expect(namespacePathProblems('Api', { topLevel: true })).toEqual(['is a reserved name']);
    expect(namespacePathProblems('api', { topLevel: false })).toEqual([]);
  });
});
