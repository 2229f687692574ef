import { type BuiltPipeline, buildPipeline, type PipelineFacts } from '#domains/ci-config/build-pipeline.ts';
import { resolveExtends, resolveReferences } from '#domains/ci-config/extends.ts';
import { readFile } from '#domains/ci-config/keywords/file.ts';
import type { CompiledJob } from '#domains/ci-config/model.ts';
import { isMapping } from '#domains/ci-config/values.ts';
import { parseYaml } from '#domains/ci-config/yaml.ts';

const FACTS: PipelineFacts = {
  ref: 'main',
  source: 'push',
  tag: false,
  merge_request: false,
  project_path: 'group/project',
  predefined: [
    { key: 'CI_COMMIT_BRANCH', value: 'main' },
    { key: 'CI_PIPELINE_SOURCE', value: 'push' },
  ],
  variables: [],
  conditions: { changes: async () => true, exists: async () => false },
};

/** Compiles a text without includes. */
export const build = async (text: string, facts: Partial<PipelineFacts> = {}): Promise<BuiltPipeline> => {
  const [document] = parseYaml(text).documents;
  if (!isMapping(document)) throw new Error('not a mapping');
  const read = readFile(resolveReferences(resolveExtends(document)));
  if (read.errors) throw new Error(read.errors.join('\n'));
  return buildPipeline(read.file, { ...FACTS, ...facts });
};

/** Returns the jobs by name. */
export const jobsOf = async (text: string, facts?: Partial<PipelineFacts>): Promise<Record<string, CompiledJob>> => {
  const { pipeline } = await build(text, facts);
  return Object.fromEntries(pipeline.jobs.map((job) => [job.name, job]));
};

/** Returns what is wrong with a text, a line for each error; empty if nothing is. */
export const errorsOf = (text: string, facts?: Partial<PipelineFacts>): Promise<string> =>
  build(text, facts).then(
    () => '',
    (error: Error) => error.message,
  );

/** Returns the error of a function. */
export const thrownBy = (run: () => unknown): string => {
  try {
    run();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return '';
};
