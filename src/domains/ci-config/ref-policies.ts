import type { RefPolicy } from './definition.ts';
import type { Expression } from './expressions.ts';
import { patternOf } from './keywords/policies.ts';
import { compileRegex, isRegexLiteral } from './regular-expressions.ts';
import type { RuleContext } from './rules.ts';
import { letOthersGo } from './turns.ts';

/** The facts about the pipeline that `only` and `except` test. */
export interface RefContext extends RuleContext {
  readonly ref: string;
  readonly tag: boolean;
  readonly source: string;
  readonly merge_request: boolean;
  readonly project_path: string;
}

/** Jobs without `only` and `rules` run for branches and tags. */
const USUAL_ONLY: RefPolicy = { refs: ['branches', 'tags'], variables: null, changes: null };

/** Sources by the word that names them. */
const SOURCES: Readonly<Record<string, string>> = {
  pushes: 'push',
  web: 'web',
  triggers: 'trigger',
  schedules: 'schedule',
  api: 'api',
  external: 'external',
  pipelines: 'pipeline',
  chat: 'chat',
  merge_requests: 'merge_request_event',
  external_pull_requests: 'external_pull_request_event',
  parent_pipelines: 'parent_pipeline',
};

/** Returns whether a job without rules is part of the pipeline. */
export const isIncluded = async (
  only: RefPolicy | null,
  except: RefPolicy | null,
  context: RefContext,
  hasUsualOnly: boolean,
): Promise<boolean> => {
  const required = only ? { ...only, refs: only.refs ?? USUAL_ONLY.refs } : hasUsualOnly ? USUAL_ONLY : null;
  for (const condition of required ? conditionsOf(required, context) : []) if (!(await condition())) return false;
  for (const condition of except ? conditionsOf(except, context) : []) if (await condition()) return false;
  return true;
};

const conditionsOf = ({ refs, variables, changes }: RefPolicy, context: RefContext): (() => Promise<boolean>)[] => [
  ...(refs ? [async () => refs.some((ref) => matchesRef(ref, context))] : []),
  ...(variables ? [() => anyHolds(variables, context)] : []),
  ...(changes ? [() => context.changes({ paths: changes, compare_to: null })] : []),
];

const anyHolds = async (expressions: readonly Expression[], { valueFor }: RefContext): Promise<boolean> => {
  for (const each of expressions) {
    await letOthersGo();
    if (each.evaluate(valueFor)) return true;
  }
  return false;
};

const matchesRef = (given: string, context: RefContext): boolean => {
  const pattern = patternOf(given);
  const [, ref = given, path = null] =
    pattern !== given ? [given, pattern, given.slice(pattern.length + 1)] : (/^(.*?)@(.+)$/.exec(given) ?? []);
  if (path !== null && path !== context.project_path) return false;
  if (ref === 'tags') return context.tag;
  if (ref === 'branches') return !context.tag && !context.merge_request;
  if (Object.hasOwn(SOURCES, ref) && SOURCES[ref] === context.source) return true;
  // A merge request pipeline is of no branch.
  if (context.merge_request) return false;
  return isRegexLiteral(ref) ? (compileRegex(ref)?.(context.ref) ?? false) : ref === context.ref;
};
