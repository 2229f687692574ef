// biome-ignore-all lint/suspicious/noTemplateCurlyInString: CI files refer to variables in this way.
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { parseExpression } from '#domains/ci-config/expressions.ts';
import { computedMs } from '../support/computed-ms.ts';

const VALUES: Readonly<Record<string, string>> = {
  A: 'a',
  EMPTY: '',
  BRANCH: 'feature/x',
  PATTERN: '/^feat/',
  BAD: '/(/',
};
const lookup = (name: string): string | null => (Object.hasOwn(VALUES, name) ? (VALUES[name] ?? null) : null);
const evaluate = (text: string): boolean | undefined => parseExpression(text)?.evaluate(lookup);

describe('an expression of rules:if', () => {
  it.each([
    ['$A', true],
    ['$EMPTY', false],
    ['$NONE', false],
    ['$A == "a"', true],
    ["$A == 'b'", false],
    ['$A != "b"', true],
    ['"a" == $A', true],
    ['$NONE == null', true],
    ['$EMPTY == null', false],
    ['$EMPTY == ""', true],
    ['$A != null', true],
    ['null == null', true],
    ['$BRANCH =~ /^feature/', true],
    ['$BRANCH =~ /^FEATURE/i', true],
    ['$BRANCH =~ /^feature\\/x$/', true],
    ['$BRANCH !~ /^main/', true],
    ['$NONE =~ /x/', false],
    ['$NONE !~ /x/', true],
    ['$BRANCH =~ $PATTERN', true],
    ['$BRANCH =~ $NONE', false],
    ['$BRANCH !~ $NONE', true],
    ['$BRANCH =~ $A', false],
    ['$BRANCH =~ $BAD', false],
    ['$A && $NONE', false],
    ['$A || $NONE', true],
    ['$NONE && $A || $A', true],
    ['$A || $A && $NONE', true],
    ['($A || $A) && $NONE', false],
    ['$A == "a" && $BRANCH =~ /x$/ && ($NONE || $A)', true],
    ['$A=="a"&&$BRANCH!="main"', true],
    ['  $A  ', true],
    ['$A == "a" == null', false],
    ['"$A"', true],
  ])('%s is %s', (text, result) => {
    expect(evaluate(text)).toBe(result);
  });

  it.each([
    '',
    ' ',
    '$',
    '${A}',
    '$A ==',
    '== $A',
    '$A = "a"',
    '$A $B',
    '($A',
    '$A)',
    '()',
    '$A =~ null',
    '/a/ =~ $A',
    '/a/',
    '$A == /a/',
    '$A =~ /(/',
    '$A =~ /a(?=b)/',
    '$A =~ /(a)\\1/',
    '$A & $B',
    'A == "a"',
    '"a',
    '$A ; drop',
    'process.exit(1)',
  ])('is refused: %s', (text) => {
    expect(parseExpression(text)).toBeNull();
  });

  it('has at most 100 parts, which also bounds how deep it nests', () => {
    const terms = (count: number) => Array.from({ length: count }, () => '$A').join(' && ');
    expect(evaluate(terms(50))).toBe(true);
    expect(parseExpression(terms(51))).toBeNull();
    expect(parseExpression(`${'('.repeat(50_000)}$A`)).toBeNull();
  });

  it('agrees with JavaScript on every combination of && and ||', () => {
    const term = fc.constantFrom('$A', '$NONE', '$A == "a"', '$A == "b"', '$NONE == null');
    const truth: Readonly<Record<string, boolean>> = {
      $A: true,
      $NONE: false,
      '$A == "a"': true,
      '$A == "b"': false,
      '$NONE == null': true,
    };
    const { tree } = fc.letrec<{ tree: { ours: string; theirs: boolean } }>((tie) => ({
      tree: fc.oneof(
        { maxDepth: 4 },
        term.map((ours) => ({ ours, theirs: truth[ours] ?? false })),
        fc.tuple(tie('tree'), tie('tree'), fc.boolean()).map(([left, right, isAnd]) => ({
          ours: `(${left.ours}) ${isAnd ? '&&' : '||'} (${right.ours})`,
          theirs: isAnd ? left.theirs && right.theirs : left.theirs || right.theirs,
        })),
      ),
    }));
    fc.assert(
      fc.property(tree, ({ ours, theirs }) => {
        fc.pre((ours.match(/[($]|&&|\|\||==|"a"|"b"|null|\)/g)?.length ?? 0) <= 100);
        expect(evaluate(ours)).toBe(theirs);
      }),
    );
  });

  it('binds && tighter than || without parentheses', () => {
    const operand = fc.constantFrom('$A', '$NONE');
    const operator = fc.constantFrom('&&', '||');
    fc.assert(
      fc.property(operand, fc.array(fc.tuple(operator, operand), { maxLength: 12 }), (first, rest) => {
        const text = [first, ...rest.flat()].join(' ');
        const expected = text.split(' || ').some((part) => part.split(' && ').every((each) => each === '$A'));
        expect(evaluate(text)).toBe(expected);
      }),
    );
  });

  it('takes linear time for expressions that backtrack elsewhere', () => {
    const started = computedMs();
    const expression = parseExpression('$X =~ /^(a+)+$/ || $X =~ /(x+x+)+y/');
    expect(expression?.evaluate(() => `${'a'.repeat(20_000)}!`)).toBe(false);
    expect(parseExpression(`$A =~ /${'(a{1,1000}){1,1000}'}/`)).toBeNull();
    expect(parseExpression(`${'"'.repeat(9_999)}`)).toBeNull();
    expect(computedMs() - started).toBeLessThan(5_000);
  });
});
