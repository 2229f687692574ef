import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { findReferences } from '#domains/planning/closing-references.ts';
import { withoutCode } from '#domains/planning/prose.ts';
import { computedMs } from '../support/computed-ms.ts';

const HUB = 'http://hub.example:8080';

/** Returns the issues that the text closes: `#1`, `group/project#1`. */
const closed = (text: string) =>
  findReferences(text, HUB)
    .filter(({ closes }) => closes)
    .map(({ project, iid }) => `${project ?? ''}#${iid}`);

const mentioned = (text: string) =>
  findReferences(text, HUB).map(({ kind, project, iid }) => `${project ?? ''}${kind === 'issue' ? '#' : '!'}${iid}`);

describe('closing patterns', () => {
  it.each([
    ['Closes #1', ['#1']],
    ['close #1. Fixed: #2', ['#1', '#2']],
    ['Fixes issue #3', ['#3']],
    ['Resolves issues #3 and #4', ['#3', '#4']],
    ['Implements #1, #2 and #3; see #4', ['#1', '#2', '#3']],
    ['Closing #1 #2,#3,and #4', ['#1', '#2', '#3', '#4']],
    ['Closes a/b#5 and a/b/c.d-e#6', ['a/b#5', 'a/b/c.d-e#6']],
    [`Closes ${HUB}/a/b/-/issues/7, ${HUB}/a/issues/b/issues/8`, ['a/b#7', 'a/issues/b#8']],
    [`Closes ${HUB}/a/b/-/work_items/9#note_3`, ['a/b#9']],
    ['Closes #1 Closes #1', ['#1']],
    ['see #1, closes #1', ['#1']],
    ['A commit\n\nfixing #12', ['#12']],
  ])('of %j', (text, expected) => {
    expect(closed(text)).toEqual(expected);
  });

  it.each([
    'CLOSES #1',
    'Closes!1',
    'Closes #1a',
    'Closes #0',
    'Closes #99999999999',
    'encloses #1',
    'Closes\n#1',
    'Closes the #1',
    'Closes `#1`',
    'Closes !1',
    'Closes &#39;',
    '```\nCloses #1\n```',
    'Closes http://other.example/a/b/-/issues/1',
    `Closes ${HUB}/a/-/issues/1`,
  ])('none of %j', (text) => {
    expect(closed(text)).toEqual([]);
  });
});

describe('references', () => {
  it.each([
    ['See #1, !2, a/b!3 (c/d#4).', ['#1', '!2', 'a/b!3', 'c/d#4']],
    [`${HUB}/a/b/-/merge_requests/5/diffs and #5`, ['a/b!5', '#5']],
    ['`#1` ``#2 ` #3`` #4', ['#4']],
    ['`a #1\n\nb` #2', ['#1', '#2']],
    ['~~~~\n#1\n~~~\n#2\n~~~~\n#3', ['#3']],
    ['> ```\n> #1\n> ```\n> #2', ['#2']],
    ['word#1 word!2 ##3 !!4', []],
  ])('in %j', (text, expected) => {
    expect(mentioned(text)).toEqual(expected);
  });

  it('keeps a thousand', () => {
    const text = Array.from({ length: 1_200 }, (_, index) => `#${index + 1}`).join(' ');
    expect(mentioned(text)).toHaveLength(1_000);
  });

  const iid = fc.integer({ min: 1, max: 2_147_483_647 });
  const path = fc.array(fc.stringMatching(/^[a-z][a-z0-9_-]{0,8}$/), { minLength: 2, maxLength: 4 });
  const issue = fc.tuple(fc.option(path), iid, fc.boolean()).map(([segments, number, asAddress]) => {
    const project = segments?.join('/') ?? null;
    const written =
      project !== null && asAddress ? `${HUB}/${project}/-/issues/${number}` : `${project ?? ''}#${number}`;
    return { written, name: `${project ?? ''}#${number}` };
  });
  const verb = fc.constantFrom('Close', 'closes', 'Closed:', 'fixing', 'Fix', 'resolves issue', 'Implementing: issues');
  const clause = fc.record({
    verb: fc.option(verb),
    issues: fc.array(fc.tuple(issue, fc.constantFrom(', ', ' and ', ', and ', ' ')), { minLength: 1, maxLength: 4 }),
    end: fc.constantFrom('. ', ' but ', '\n', '; '),
  });

  it('finds the written references, and those that follow a verb', () => {
    fc.assert(
      fc.property(fc.array(clause, { maxLength: 6 }), (clauses) => {
        const text = clauses
          .map(({ verb: word, issues, end }) => {
            const list = issues.map(([each, joint], at) => `${at === 0 ? '' : joint}${each.written}`).join('');
            return `${word ?? 'see'} ${list}${end}`;
          })
          .join('');
        const names = (some: typeof clauses) => [
          ...new Set(some.flatMap(({ issues }) => issues.map(([each]) => each.name))),
        ];
        expect(mentioned(text)).toEqual(names(clauses));
        expect([...closed(text)].sort()).toEqual(names(clauses.filter((each) => each.verb !== null)).sort());
      }),
    );
  });

  it('keeps offsets and line breaks where it takes code out', () => {
    const pieces = fc.array(fc.constantFrom('`', '``', '```', '~~~', '\n', ' ', 'a', '> ', '#1'), { maxLength: 60 });
    fc.assert(
      fc.property(pieces, (given) => {
        const text = given.join('');
        const prose = withoutCode(text);
        expect(prose).toHaveLength(text.length);
        for (const [at, char] of [...prose].entries()) if (char !== '\0') expect(char).toBe(text[at]);
        expect(prose.split('\n')).toHaveLength(text.split('\n').length);
      }),
    );
  });

  it.each([
    ['a/'],
    ['#'],
    ['# '],
    ['closes '],
    ['Closes #1 ,'],
    ['close  and '],
    [`${HUB}/a/`],
    ['`'],
    ['`a``b'],
    ['> '],
    [' '],
    ['~~~\n'],
  ])('reads a megabyte of %j in linear time', (piece) => {
    const text = piece.repeat(Math.ceil(1_048_576 / piece.length));
    const started = computedMs();
    findReferences(text, HUB);
    expect(computedMs() - started).toBeLessThan(3_000);
  });
});
