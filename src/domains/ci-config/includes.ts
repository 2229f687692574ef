import type { Context } from '#platform/context.ts';
import { ConfigError } from './config-error.ts';
import { type IncludeEntry, readIncludes } from './include-entries.ts';
import { type FoundFile, findFiles, type Origin, type ReadArtifact } from './included-files.ts';
import { interpolate, readInputs } from './inputs.ts';
import { parseAnyYaml } from './large-yaml.ts';
import type { IncludedFile } from './model.ts';
import { matchingRule, type RuleContext } from './rules.ts';
import { deepMerge, isMapping, type Mapping, type Value } from './values.ts';

export interface LoadLimits {
  readonly includes: number;
  readonly bytes: number;
}

export interface LoadContext {
  readonly ctx: Context;
  readonly limits: LoadLimits;
  /** Returns variables of the pipeline, without the file's own: includes are read before the file. */
  readonly valueFor: (name: string) => string | null;
  readonly isMasked: (name: string) => boolean;
  readonly conditions: Omit<RuleContext, 'valueFor'>;
  readonly signal: AbortSignal;
  /** Only for child pipelines. */
  readonly readArtifact?: ReadArtifact | undefined;
}

/** Reads a CI file and all that it includes. */
export class Loader {
  readonly included: IncludedFile[] = [];
  readonly warnings: string[] = [];
  readonly #context: LoadContext;
  #bytes = 0;

  constructor(context: LoadContext) {
    this.#context = context;
  }

  /**
   * Returns the file merged over its includes, later ones over earlier ones. With `texts`, inputs may be texts
   * (`readInputs`).
   *
   * @throws ConfigError
   */
  async load(
    text: string,
    origin: Origin,
    inputs: Readonly<Record<string, unknown>>,
    options: { readonly texts?: boolean | undefined } = {},
  ): Promise<Mapping> {
    this.#countBytes(text);
    const { documents, warnings } = await parseAnyYaml(text, this.#context.signal);
    this.warnings.push(...warnings);
    return this.#withIncludes(this.#content(documents, inputs, options), origin);
  }

  /** Returns the merged files of these entries. */
  async loadEntries(include: Value, origin: Origin): Promise<Mapping> {
    return this.#withIncludes(new Map([['include', include]]), origin);
  }

  /** Returns the configuration after the header, with its inputs filled in. */
  #content(
    documents: readonly Value[],
    given: Readonly<Record<string, unknown>>,
    options: { readonly texts?: boolean | undefined },
  ): Mapping {
    const [first = null, second] = documents;
    const hasHeader = isMapping(first) && first.has('spec') && (second !== undefined || first.size === 1);
    if (!hasHeader) {
      if (documents.length > 1) throw new ConfigError('Invalid configuration format');
      if (Object.keys(given).length > 0) {
        throw new ConfigError('Given inputs not defined in the `spec` section of the included configuration file');
      }
      return rootOf(first);
    }
    const unknown = [...first.keys()].filter((key) => key !== 'spec');
    if (unknown.length > 0) throw new ConfigError(`header config contains unknown keys: ${unknown.join(', ')}`);
    if (documents.length > 2) throw new ConfigError('Invalid configuration format');
    const inputs = readInputs(first.get('spec') ?? null, given, options);
    return rootOf(interpolate(second ?? null, { ...this.#context, inputs }));
  }

  async #withIncludes(root: Mapping, origin: Origin): Promise<Mapping> {
    let merged: Mapping = new Map();
    for (const entry of readIncludes(root.get('include'))) {
      for (const found of await this.#files(entry, origin)) {
        if (this.included.length >= this.#context.limits.includes) {
          throw new ConfigError(`Maximum of ${this.#context.limits.includes} nested includes are allowed!`, {
            isPlaced: true,
          });
        }
        this.included.push(found.shown);
        merged = deepMerge(merged, await this.#loadIncluded(found, entry.inputs));
      }
    }
    const own = new Map(root);
    own.delete('include');
    return deepMerge(merged, own);
  }

  async #loadIncluded(found: FoundFile, inputs: Readonly<Record<string, unknown>>): Promise<Mapping> {
    try {
      return await this.load(found.text, found.origin, inputs);
    } catch (error) {
      if (!(error instanceof ConfigError) || error.isPlaced) throw error;
      throw new ConfigError(`\`${found.shown.location}\`: ${error.message}`, { isPlaced: true });
    }
  }

  async #files(entry: IncludeEntry, origin: Origin): Promise<readonly FoundFile[]> {
    const { ctx, conditions, valueFor, signal, readArtifact } = this.#context;
    if (entry.rules) {
      const rule = await matchingRule(entry.rules, { ...conditions, valueFor });
      if (rule === null || rule.when === 'never') return [];
    }
    signal.throwIfAborted();
    return findFiles(ctx, entry.target, origin, { valueFor, signal, readArtifact });
  }

  #countBytes(text: string): void {
    this.#bytes += Buffer.byteLength(text);
    if (this.#bytes > this.#context.limits.bytes) {
      throw new ConfigError('Total size of combined CI/CD configuration is too big', { isPlaced: true });
    }
  }
}

const rootOf = (value: Value): Mapping => {
  if (!isMapping(value)) throw new ConfigError('Invalid configuration format');
  return value;
};
