import { createHash } from 'node:crypto';
import type { Context } from '#platform/context.ts';
import { ConfigError } from './config-error.ts';
import type { ChangesClause, ExistsClause } from './definition.ts';
import { isPlainPath } from './globs.ts';
import type { CompileInput } from './model.ts';
import { anyMatches, withoutLead } from './path-globs.ts';
import { commitOf, otherView, type RepositoryView } from './repository-view.ts';
import type { RuleContext } from './rules.ts';

/** Beyond this many comparisons `exists` is true, as the reference says (ci §1). */
const MAX_COMPARISONS = 50_000;
const MAX_CHANGED = 100_000;

/**
 * Returns the answers to `changes` and `exists`. They are computed once for equal clauses. Without a commit nothing
 * exists.
 */
export const conditionsOf = (
  ctx: Context,
  view: RepositoryView | null,
  input: Pick<CompileInput, 'changes'>,
): Omit<RuleContext, 'valueFor'> => {
  const answers = new Map<string, Promise<boolean>>();
  const once = (question: unknown, answer: () => Promise<boolean>): Promise<boolean> => {
    // Clauses with variables differ by job, so texts would take too much memory.
    const key = createHash('sha256').update(JSON.stringify(question)).digest('base64');
    const before = answers.get(key);
    if (before) return before;
    const computed = answer();
    answers.set(key, computed);
    return computed;
  };
  let changed: Promise<readonly string[] | null> | null = null;

  const changes = async ({ paths, compare_to }: ChangesClause): Promise<boolean> => {
    changed ??= input.changes();
    const found = compare_to === null ? await changed : await changedSince(ctx, view, compare_to);
    return found === null || anyMatches(found, paths);
  };

  const exists = async ({ paths, project, ref }: ExistsClause): Promise<boolean> => {
    const place = project === null ? view : await otherView(ctx, project, ref);
    if (place === 'no_project') throw new ConfigError(`rules:exists:project \`${project}\` is not a valid project`);
    if (place === 'no_ref')
      throw new ConfigError(`rules:exists:ref \`${ref}\` is not a valid ref in project \`${project}\``);
    if (place === null) return false;
    const plain = paths.map(withoutLead).filter(isPlainPath);
    for (const path of plain) if (await place.has(path)) return true;
    const globs = paths.filter((path) => !isPlainPath(path));
    if (globs.length === 0) return false;
    const all = await place.paths();
    return all.length * globs.length > MAX_COMPARISONS || anyMatches(all, globs);
  };

  return {
    changes: (clause) => once(['changes', clause], () => changes(clause)),
    exists: (clause) => once(['exists', clause], () => exists(clause)),
  };
};

/** Returns the paths that differ from where the commit left another branch. */
const changedSince = async (
  ctx: Context,
  view: RepositoryView | null,
  ref: string,
): Promise<readonly string[] | null> => {
  if (!view) return null;
  const { git } = ctx.services;
  const { disk_path } = view.project;
  const other = await commitOf(ctx, view.project, ref);
  if (other === null) throw new ConfigError(`rules:changes:compare_to is not a valid ref`);
  const base = await git.mergeBase(disk_path, [other, view.sha], { signal: ctx.signal });
  const paths: string[] = [];
  for await (const path of git.changedPaths(disk_path, base, view.sha, { signal: ctx.signal })) {
    paths.push(path);
    if (paths.length === MAX_CHANGED) break;
  }
  return paths;
};
