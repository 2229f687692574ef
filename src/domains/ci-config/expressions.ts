import { compileRegex } from './regular-expressions.ts';

/**
 * Expressions of `rules:if` (reference: ci §1): `$NAME`, texts in quotes, `/re2/flags`, `null`, the operators
 * `== != =~ !~ && ||` and parentheses. Comparisons bind tighter than `&&`, and `&&` tighter than `||`.
 */
export interface Expression {
  /** Undefined variables are null. */
  evaluate(valueFor: (name: string) => string | null): boolean;
}

const MAX_TOKENS = 100;
const MAX_LENGTH = 10_000;

type Token =
  | { readonly kind: 'variable'; readonly name: string }
  | { readonly kind: 'text'; readonly value: string }
  | { readonly kind: 'pattern'; readonly text: string }
  | { readonly kind: 'null' }
  | { readonly kind: 'operator'; readonly sign: string };

/** Sticky, one alternative for each kind of token. */
const TOKEN =
  /\s*(?:\$([A-Za-z_]\w*)|"([^"]*)"|'([^']*)'|(\/(?:[^/\\\n]|\\.)+\/[ismU]*)|(null)\b|(==|!=|=~|!~|&&|\|\||[()]))\s*/y;

/** Returns the expression, or null if the syntax is invalid. Takes linear time. */
export const parseExpression = (text: string): Expression | null => {
  const tokens = tokensOf(text);
  if (tokens === null || tokens.length === 0) return null;
  const parser = new ExpressionParser(tokens);
  const root = parser.parse();
  return root && { evaluate: (valueFor) => truthOf(valueIn(root, valueFor)) };
};

const tokensOf = (text: string): Token[] | null => {
  if (text.length > MAX_LENGTH) return null;
  const tokens: Token[] = [];
  for (TOKEN.lastIndex = 0; TOKEN.lastIndex < text.length; ) {
    const match = TOKEN.exec(text);
    if (!match || tokens.length === MAX_TOKENS) {
      TOKEN.lastIndex = 0;
      return null;
    }
    const [, name, double, single, pattern, isNull, sign = ''] = match;
    const quoted = double ?? single;
    if (name !== undefined) tokens.push({ kind: 'variable', name });
    else if (quoted !== undefined) tokens.push({ kind: 'text', value: quoted });
    else if (pattern !== undefined) tokens.push({ kind: 'pattern', text: pattern });
    else if (isNull !== undefined) tokens.push({ kind: 'null' });
    else tokens.push({ kind: 'operator', sign });
  }
  return tokens;
};

type Node =
  | { readonly kind: 'variable'; readonly name: string }
  | { readonly kind: 'text'; readonly value: string }
  | { readonly kind: 'pattern'; readonly matches: (subject: string) => boolean }
  | { readonly kind: 'null' }
  | { readonly kind: 'operation'; readonly sign: string; readonly left: Node; readonly right: Node };

/** The operators of each level, loosest first. */
const LEVELS: readonly ReadonlySet<string>[] = [new Set(['||']), new Set(['&&']), new Set(['==', '!=', '=~', '!~'])];

/** Recursive descent. The number of tokens bounds its depth. Each method returns null for invalid syntax. */
class ExpressionParser {
  readonly #tokens: readonly Token[];
  #at = 0;

  constructor(tokens: readonly Token[]) {
    this.#tokens = tokens;
  }

  parse(): Node | null {
    const node = this.#level(0);
    return this.#at === this.#tokens.length && node?.kind !== 'pattern' ? node : null;
  }

  #sign(): string | null {
    const token = this.#tokens[this.#at];
    return token?.kind === 'operator' ? token.sign : null;
  }

  #level(level: number): Node | null {
    const signs = LEVELS[level];
    if (!signs) return this.#value();
    let left = this.#level(level + 1);
    for (let sign = this.#sign(); left && sign !== null && signs.has(sign); sign = this.#sign()) {
      this.#at++;
      const right = this.#level(level + 1);
      left = right && isAllowed(sign, left, right) ? { kind: 'operation', sign, left, right } : null;
    }
    return left;
  }

  #value(): Node | null {
    const token = this.#tokens[this.#at++];
    if (token?.kind === 'pattern') {
      const matches = compileRegex(token.text);
      return matches && { kind: 'pattern', matches };
    }
    if (token?.kind !== 'operator') return token ?? null;
    if (token.sign !== '(') return null;
    const inner = this.#level(0);
    if (this.#sign() !== ')') return null;
    this.#at++;
    return inner;
  }
}

const isMatch = (sign: string): boolean => sign === '=~' || sign === '!~';

/** Expressions in slashes only stand to the right of `=~` and `!~`, and only they and variables do. */
const isAllowed = (sign: string, left: Node, right: Node): boolean =>
  left.kind !== 'pattern' &&
  (isMatch(sign)
    ? right.kind === 'pattern' || right.kind === 'variable' || right.kind === 'text'
    : right.kind !== 'pattern');

type Result = string | boolean | null;

const truthOf = (result: Result): boolean => result !== null && result !== '' && result !== false;

const valueIn = (node: Node, valueFor: (name: string) => string | null): Result => {
  switch (node.kind) {
    case 'variable':
      return valueFor(node.name);
    case 'text':
      return node.value;
    case 'null':
    case 'pattern':
      return null;
    case 'operation':
      return operationResult(node.sign, node.left, node.right, valueFor);
  }
};

const operationResult = (sign: string, left: Node, right: Node, valueFor: (name: string) => string | null): Result => {
  const first = valueIn(left, valueFor);
  if (sign === '&&') return truthOf(first) ? valueIn(right, valueFor) : first;
  if (sign === '||') return truthOf(first) ? first : valueIn(right, valueFor);
  if (isMatch(sign)) return (sign === '=~') === isFound(first, right, valueFor);
  const isEqual = first === valueIn(right, valueFor);
  return (sign === '==') === isEqual;
};

/** A variable on the right may hold an expression in slashes. Anything else in it matches nothing. */
const isFound = (subject: Result, right: Node, valueFor: (name: string) => string | null): boolean => {
  if (typeof subject !== 'string') return false;
  if (right.kind === 'pattern') return right.matches(subject);
  const text = valueIn(right, valueFor);
  return typeof text === 'string' && (compileRegex(text)?.(subject) ?? false);
};
