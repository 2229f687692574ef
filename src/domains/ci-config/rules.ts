import type { ChangesClause, ExistsClause, Rule } from './definition.ts';
import { letOthersGo } from './turns.ts';
import { expandText, MAX_NAME } from './variables.ts';

/** The facts about the pipeline that rules test. */
export interface RuleContext {
  readonly valueFor: (name: string) => string | null;
  /** Whether the changes match one of the globs. */
  readonly changes: (clause: ChangesClause) => Promise<boolean>;
  /** Whether the repository has a file that matches one of the globs. */
  readonly exists: (clause: ExistsClause) => Promise<boolean>;
}

/** Returns the first rule that matches, or null. */
export const matchingRule = async (rules: readonly Rule[], context: RuleContext): Promise<Rule | null> => {
  for (const rule of rules) {
    await letOthersGo();
    if (await matches(rule, context)) return rule;
  }
  return null;
};

const matches = async (rule: Rule, context: RuleContext): Promise<boolean> => {
  if (rule.if && !rule.if.evaluate(context.valueFor)) return false;
  if (rule.changes && !(await context.changes(expanded(rule.changes, context)))) return false;
  return rule.exists === null || (await context.exists(expanded(rule.exists, context)));
};

const expanded = <C extends { readonly paths: readonly string[] }>(clause: C, { valueFor }: RuleContext): C => ({
  ...clause,
  paths: clause.paths.map((path) => expandText(path, (name) => valueFor(name) ?? undefined, MAX_NAME)),
});
