import type { RefPolicy } from '../definition.ts';
import { type Expression, parseExpression } from '../expressions.ts';
import { compileRegex, isRegexLiteral } from '../regular-expressions.ts';
import { isList, isMapping, type Value } from '../values.ts';
import { type KeyPath, readHash, readTexts, textsOf } from './key-path.ts';

const MAX_PATTERNS = 50;

/** Reads `only` or `except`: a list of refs, or a hash. */
export const readPolicy = (value: Value | undefined, at: KeyPath): RefPolicy | null => {
  if (value === undefined || value === null) return null;
  if (typeof value === 'string' || isList(value)) {
    const refs = readRefs(typeof value === 'string' ? [value] : value, at);
    return refs && { refs, variables: null, changes: null };
  }
  if (!isMapping(value)) return at.fail('has to be either an array of conditions or a hash');
  const hash = readHash(value, at, ['refs', 'kubernetes', 'variables', 'changes']);
  if (!hash) return null;
  if (hash.has('kubernetes')) at.refuse('kubernetes');
  const changes = readTexts(hash, 'changes', at);
  if (changes && changes.length > MAX_PATTERNS) at.fail(`is too long (maximum is ${MAX_PATTERNS} items)`, 'changes');
  const refs = hash.get('refs') ?? null;
  const variables = readTexts(hash, 'variables', at);
  return {
    refs: refs === null ? null : readRefs(refs, at, 'refs'),
    variables: variables && readExpressions(variables, at),
    changes,
  };
};

const readRefs = (value: Value, at: KeyPath, attribute = 'config'): readonly string[] | null => {
  const refs = textsOf(value);
  const isValid = refs?.every((ref) => !isRegexLiteral(patternOf(ref)) || compileRegex(patternOf(ref)) !== null);
  return refs && isValid
    ? refs
    : at.fail('should be an array of strings or regular expressions using re2 syntax', attribute);
};

/** `ref@path` names a project, too. */
export const patternOf = (ref: string): string => /^(\/[\s\S]+\/[ismU]*)@/.exec(ref)?.[1] ?? ref;

const readExpressions = (texts: readonly string[], at: KeyPath): readonly Expression[] =>
  texts.flatMap((text) => {
    const expression = parseExpression(text);
    if (!expression) at.fail('invalid expression syntax', 'variables');
    return expression ? [expression] : [];
  });
