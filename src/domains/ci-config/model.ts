import type { JobDefinition } from './definition.ts';
import type { ReadArtifact } from './included-files.ts';
import type { Mapping } from './values.ts';

/** A variable as rules and `expandVariables` read it. */
export interface Variable {
  readonly key: string;
  readonly value: string;
  /** Whether references to other variables in the value are left alone. */
  readonly raw?: boolean | undefined;
  /** A file variable is not expanded into other values, and its own value is left alone. */
  readonly file?: boolean | undefined;
  /** Logs hide the value, so texts that people read must not contain it. */
  readonly masked?: boolean | undefined;
}

/** The circumstances for which `compileFile` compiles a CI file. */
export interface CompileInput {
  /** The commit. Null only if `content` is given and the project may have no commit. */
  readonly sha: string | null;
  /** The name of the branch or tag, without `refs/heads/`. For merge request pipelines the source branch. */
  readonly ref: string;
  readonly tag?: boolean | undefined;
  /** `push`, `web`, `merge_request_event`, ... */
  readonly source: string;
  /** The predefined variables (`CI_COMMIT_BRANCH`, ...). Variables of the file take precedence over them. */
  readonly predefined?: readonly Variable[] | undefined;
  /** Variables of instance, groups, project and pipeline, lowest precedence first. They beat variables of the file. */
  readonly variables: readonly Variable[];
  /** Paths that the push or merge request changes. Resolves to null if there is nothing to compare with. */
  readonly changes: () => Promise<readonly string[] | null>;
  /** Used instead of the file in the repository. */
  readonly content?: string | undefined;
  /** Values for `spec:inputs`. */
  readonly inputs?: Readonly<Record<string, unknown>> | undefined;
  /** Texts among the inputs are read as the type that the file declares. */
  readonly inputs_are_texts?: boolean | undefined;
  /** Entries of `trigger:include`, used instead of the file of a child pipeline. */
  readonly include?: readonly unknown[] | undefined;
  /** Reads files of `include:artifact`. Only child pipelines have it. */
  readonly readArtifact?: ReadArtifact | undefined;
  /** Whether the pipeline is for a merge request. */
  readonly merge_request?: boolean | undefined;
}

export const INCLUDE_KINDS = ['local', 'file', 'remote', 'template', 'component', 'artifact'] as const;
export type IncludeKind = (typeof INCLUDE_KINDS)[number];

/** A file that the CI file includes, as the lint shows it. */
export interface IncludedFile {
  readonly type: IncludeKind;
  readonly location: string;
  readonly blob: string | null;
  readonly raw: string | null;
  readonly extra: Readonly<Record<string, unknown>>;
  readonly context_project: string | null;
  readonly context_sha: string | null;
}

export type CompileResult =
  | {
      readonly ok: true;
      readonly pipeline: CompiledPipeline;
      /** All jobs of the file, before the rules decided. */
      readonly definitions: readonly JobDefinition[];
      /** Why the pipeline has no jobs, if it has none. */
      readonly excluded_by: 'workflow' | 'rules' | null;
      readonly warnings: readonly string[];
      readonly includes: readonly IncludedFile[];
      readonly merged: Mapping;
    }
  | {
      readonly ok: false;
      /** `missing`: there is no CI file. */
      readonly reason: 'missing' | 'invalid';
      readonly errors: readonly string[];
      readonly warnings: readonly string[];
      readonly includes: readonly IncludedFile[];
      /** Null if the file could not be read. */
      readonly merged: Mapping | null;
    };

/**
 * The content of a project's CI file, ready to become the rows of a pipeline: includes, `extends`, `!reference`,
 * inputs, `default` and `rules` are resolved. Durations are in seconds.
 */
export interface CompiledPipeline {
  /** In order, with `.pre` and `.post`. */
  readonly stages: readonly string[];
  /** In the order of the file. Only the jobs that the rules add to this pipeline. */
  readonly jobs: readonly CompiledJob[];
  /** Set by `workflow:name`. */
  readonly name: string | null;
  readonly auto_cancel: { readonly on_new_commit: OnNewCommit; readonly on_job_failure: 'all' | 'none' };
}

export const ON_NEW_COMMIT = ['conservative', 'interruptible', 'none'] as const;
export type OnNewCommit = (typeof ON_NEW_COMMIT)[number];

export const RUN_WHEN = ['on_success', 'on_failure', 'always', 'manual', 'delayed'] as const;
export type RunWhen = (typeof RUN_WHEN)[number];

/** The results of a job after which artifacts and caches are uploaded. */
export const RESULT_WHEN = ['on_success', 'on_failure', 'always'] as const;
type ResultWhen = (typeof RESULT_WHEN)[number];

export const ENVIRONMENT_ACTIONS = ['start', 'stop', 'prepare', 'verify', 'access'] as const;
type EnvironmentAction = (typeof ENVIRONMENT_ACTIONS)[number];

/** The tiers of environments. */
export const TIERS = ['production', 'staging', 'testing', 'development', 'other'] as const;
export type Tier = (typeof TIERS)[number];

export const TRIGGER_STRATEGIES = ['depend', 'mirror'] as const;
export type TriggerStrategy = (typeof TRIGGER_STRATEGIES)[number];

/** The people who may download an artifact: everyone who may read the job, a role and above, or only later jobs. */
export const ARTIFACT_ACCESSES = ['all', 'developer', 'maintainer', 'none'] as const;
export type ArtifactAccess = (typeof ARTIFACT_ACCESSES)[number];

export interface CompiledJob {
  /** With the suffix of `parallel`: `test 1/3`, `test: [a, b]`. */
  readonly name: string;
  readonly stage: string;
  readonly kind: 'build' | 'bridge';
  readonly when: RunWhen;
  /** The wait of a delayed job. */
  readonly start_in: number | null;
  readonly allow_failure: boolean;
  /** The exit codes that do not fail the pipeline, if `allow_failure` names some. */
  readonly allow_failure_exit_codes: readonly number[];
  /** Null: the job waits for the stages before its own. Empty: it starts at once. */
  readonly needs: readonly Need[] | null;
  /** Artifacts of jobs in other pipelines and projects. */
  readonly cross_needs: readonly CrossNeed[];
  /** The jobs whose archives are downloaded. Null: all of earlier stages, or of `needs`. */
  readonly dependencies: readonly string[] | null;
  /** `before_script` and `script`, one after the other. */
  readonly script: readonly string[];
  readonly after_script: readonly string[];
  readonly image: Image | null;
  readonly services: readonly Service[];
  /** Those of the file, of the job, and of the rule that matched, lowest precedence first. */
  readonly variables: readonly FileVariable[];
  readonly tags: readonly string[];
  readonly timeout: number | null;
  readonly retry: { readonly max: number; readonly when: readonly string[]; readonly exit_codes: readonly number[] };
  readonly interruptible: boolean;
  readonly resource_group: string | null;
  readonly environment: JobEnvironment | null;
  readonly trigger: Trigger | null;
  /** As written in the file. The runner's `release` step is made from it. */
  readonly release: Readonly<Record<string, unknown>> | null;
  /** The regular expression whose last match in the log has the coverage, without slashes. */
  readonly coverage: string | null;
  readonly artifacts: JobArtifacts | null;
  readonly caches: readonly Cache[];
  readonly id_tokens: Readonly<Record<string, { readonly aud: readonly string[] }>>;
  readonly hooks: { readonly pre_get_sources_script: readonly string[] };
  /** 1-based. */
  readonly parallel: { readonly index: number; readonly total: number } | null;
}

/** A job whose file sets nothing. */
export const EMPTY_JOB: CompiledJob = {
  name: '',
  stage: 'test',
  kind: 'build',
  when: 'on_success',
  start_in: null,
  allow_failure: false,
  allow_failure_exit_codes: [],
  needs: null,
  cross_needs: [],
  dependencies: null,
  script: [],
  after_script: [],
  image: null,
  services: [],
  variables: [],
  tags: [],
  timeout: null,
  retry: { max: 0, when: [], exit_codes: [] },
  interruptible: false,
  resource_group: null,
  environment: null,
  trigger: null,
  release: null,
  coverage: null,
  artifacts: null,
  caches: [],
  id_tokens: {},
  hooks: { pre_get_sources_script: [] },
  parallel: null,
};

export interface Need {
  readonly name: string;
  readonly artifacts: boolean;
  readonly optional: boolean;
}

export interface CrossNeed {
  /** A project's full path with a ref, or a pipeline of the same family. */
  readonly project: string | null;
  readonly ref: string | null;
  readonly pipeline: string | null;
  readonly job: string;
  readonly artifacts: boolean;
}

export interface Image {
  readonly name: string;
  readonly entrypoint: readonly string[] | null;
  readonly pull_policy: readonly string[] | null;
  /** The options `docker` and `kubernetes`. */
  readonly executor_opts: Readonly<Record<string, unknown>>;
}

export interface Service extends Image {
  readonly alias: string | null;
  readonly command: readonly string[] | null;
  readonly variables: readonly FileVariable[];
}

export interface FileVariable {
  readonly key: string;
  readonly value: string;
  /** Whether references to other variables in the value are left alone. */
  readonly raw: boolean;
}

export interface JobEnvironment {
  /** May hold references to variables, as may the URL. */
  readonly name: string;
  readonly url: string | null;
  readonly on_stop: string | null;
  readonly action: EnvironmentAction;
  readonly auto_stop_in: number | null;
  readonly deployment_tier: string | null;
}

export interface Trigger {
  /** A downstream project's full path, or null for a child pipeline of `include`. */
  readonly project: string | null;
  readonly branch: string | null;
  /** The files of a child pipeline, as written under `trigger:include`. */
  readonly include: readonly unknown[];
  readonly strategy: TriggerStrategy | null;
  readonly forward: { readonly yaml_variables: boolean; readonly pipeline_variables: boolean };
  readonly inputs: Readonly<Record<string, unknown>>;
}

export interface JobArtifacts {
  readonly name: string | null;
  readonly paths: readonly string[];
  readonly exclude: readonly string[];
  readonly untracked: boolean;
  readonly when: ResultWhen;
  /** As written: `1 week`, `never`. Null: the setting `default_artifacts_expire_in`. */
  readonly expire_in: string | null;
  readonly expose_as: string | null;
  readonly access: ArtifactAccess;
  /** Paths by type of report. */
  readonly reports: Readonly<Record<string, readonly string[]>>;
}

export interface Cache {
  /** May hold references to variables. */
  readonly key: string | { readonly files: readonly string[]; readonly prefix: string | null };
  readonly paths: readonly string[];
  readonly untracked: boolean;
  /** `pull-push`, `pull`, `push`, or a variable, which the runner replaces. */
  readonly policy: string;
  readonly when: ResultWhen;
  readonly unprotect: boolean;
  readonly fallback_keys: readonly string[];
}
