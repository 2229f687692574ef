import { getSettings } from '#domains/settings/queries.ts';
import type { Context } from '#platform/context.ts';
import { buildPipeline } from './build-pipeline.ts';
import { conditionsOf } from './conditions.ts';
import { ConfigError } from './config-error.ts';
import { type CompilingProject, findConfigFile, lacksCiFile, MISSING_FILE } from './config-path.ts';
import type { FileDefinition } from './definition.ts';
import { resolveExtends, resolveReferences } from './extends.ts';
import { Loader } from './includes.ts';
import { readFile } from './keywords/file.ts';
import type { CompileInput, CompileResult, IncludedFile } from './model.ts';
import { viewOf } from './repository-view.ts';
import { fromJson, isTooLong, type Mapping } from './values.ts';
import { expandVariables, masksOf, valuesOf } from './variables.ts';

/** For all files of a pipeline together. */
const LOAD_TIMEOUT_MS = 30_000;

/** A CI file with its keywords read, and what else the lint shows. */
export interface DefinedFile {
  readonly file: FileDefinition;
  readonly warnings: readonly string[];
  readonly includes: readonly IncludedFile[];
  readonly merged: Mapping;
}

type Refused = Extract<CompileResult, { ok: false }>;

/**
 * Compiles the CI file of a project for one pipeline: reads it at the commit with all its includes, and lets the rules
 * decide about the jobs. Other projects are read with the rights of the caller, who must be allowed to read this one's
 * code (specification: reference ci §1).
 */
export const compileFile = async (
  ctx: Context,
  project: CompilingProject,
  input: CompileInput,
): Promise<CompileResult> => {
  const defined = await defineFile(ctx, project, input);
  if (defined.refused) return defined.refused;
  const { file, warnings, includes, merged } = defined.file;
  try {
    const built = await buildPipeline(file, {
      ...input,
      tag: input.tag ?? false,
      merge_request: input.merge_request ?? false,
      project_path: project.full_path,
      conditions: conditionsOf(ctx, input.sha === null ? null : viewOf(ctx, project, input.sha), input),
    });
    return { ok: true, ...built, definitions: file.jobs, warnings, includes, merged };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { ok: false, reason: 'invalid', errors: [error.message], warnings, includes, merged };
  }
};

/** Returns the result of `compileFile` if the project has no CI file of its own at the commit. Otherwise null. */
export const findMissingFile = async (
  ctx: Context,
  project: CompilingProject,
  sha: string,
): Promise<Refused | null> => {
  return (await lacksCiFile(ctx, project, sha))
    ? { ok: false, reason: 'missing', errors: [MISSING_FILE], warnings: [], includes: [], merged: null }
    : null;
};

/** Reads the CI file and its keywords, without asking the rules of jobs. */
export const defineFile = async (
  ctx: Context,
  project: CompilingProject,
  input: CompileInput,
): Promise<{ readonly file: DefinedFile; readonly refused?: never } | { readonly refused: Refused }> => {
  const { ci_max_includes, ci_max_total_yaml_size_bytes } = await getSettings(ctx);
  const view = input.sha === null ? null : viewOf(ctx, project, input.sha);
  const timeout = AbortSignal.timeout(LOAD_TIMEOUT_MS);
  let valueFor = valuesOf([]);
  let isMasked = masksOf([]);
  const loader = new Loader({
    ctx,
    limits: { includes: ci_max_includes, bytes: ci_max_total_yaml_size_bytes },
    valueFor: (name) => valueFor(name) ?? null,
    isMasked: (name) => isMasked(name),
    conditions: conditionsOf(ctx, view, input),
    signal: AbortSignal.any([ctx.signal, timeout]),
    readArtifact: input.readArtifact,
  });
  let merged: Mapping | null = null;
  const refuse = (errors: readonly string[], reason: Refused['reason']) => ({
    refused: {
      ok: false as const,
      reason,
      errors,
      warnings: loader.warnings,
      includes: loader.included,
      merged,
    },
  });
  try {
    const variables = expandVariables([...(input.predefined ?? []), ...input.variables]);
    valueFor = valuesOf(variables);
    isMasked = masksOf(variables);
    merged = bounded(await load(ctx, project, input, loader));
    merged = bounded(resolveReferences(resolveExtends(merged)));
    const read = readFile(merged);
    if (read.errors) return refuse(read.errors, 'invalid');
    return {
      file: {
        file: read.file,
        warnings: [...loader.warnings, ...read.file.warnings],
        includes: loader.included,
        merged,
      },
    };
  } catch (error) {
    if (timeout.aborted && !ctx.signal.aborted)
      return refuse(['Resolving config took longer than expected'], 'invalid');
    if (error instanceof ConfigError) return refuse([error.message], error.isMissing ? 'missing' : 'invalid');
    throw error;
  }
};

/** @throws ConfigError if the document is too long */
const bounded = (document: Mapping): Mapping => {
  if (isTooLong(document)) throw new ConfigError('The parsed YAML is too big');
  return document;
};

const load = async (ctx: Context, project: CompilingProject, input: CompileInput, loader: Loader): Promise<Mapping> => {
  const view = input.sha === null ? null : viewOf(ctx, project, input.sha);
  if (input.include) return loader.loadEntries(fromJson(withInputs(input.include, input.inputs ?? {})), { view });
  const found = input.content === undefined ? await findConfigFile(ctx, project, view) : { text: input.content, view };
  if (found.text.trim() === '') throw new ConfigError('Please provide content of .gitlab-ci.yml');
  return loader.load(found.text, { view: found.view }, input.inputs ?? {}, { texts: input.inputs_are_texts });
};

/** `trigger:inputs` are for each file that the trigger includes, unless the entry has inputs of its own. */
const withInputs = (include: readonly unknown[], inputs: Readonly<Record<string, unknown>>): readonly unknown[] =>
  Object.keys(inputs).length === 0
    ? include
    : include.map((entry) => ({ inputs, ...(typeof entry === 'string' ? { local: entry } : Object(entry)) }));

/** Returns the text of a merged file. Only the lint shows it. */
export const mergedYaml = async (merged: Mapping | null): Promise<string | null> => {
  if (!merged) return null;
  const { writeYaml } = await import('./yaml.ts');
  return writeYaml(merged);
};
