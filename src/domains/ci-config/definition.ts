import type { Expression } from './expressions.ts';
import type { CompiledJob, FileVariable, Need, OnNewCommit, RunWhen } from './model.ts';

/** A CI file after its keywords are read, before rules decide about a certain pipeline. */
export interface FileDefinition {
  /** With `.pre` and `.post`. */
  readonly stages: readonly string[];
  readonly variables: readonly FileVariable[];
  readonly workflow: Workflow;
  readonly jobs: readonly JobDefinition[];
  readonly warnings: readonly string[];
}

export interface Workflow {
  readonly rules: readonly Rule[] | null;
  readonly name: string | null;
  readonly auto_cancel: AutoCancel;
}

export interface AutoCancel {
  readonly on_new_commit: OnNewCommit | null;
  readonly on_job_failure: 'all' | 'none' | null;
}

export interface JobDefinition {
  /** As it runs if no rule changes it. Its variables are only those of the job. */
  readonly job: CompiledJob;
  /** The name before `parallel` added a suffix. */
  readonly base_name: string;
  readonly rules: readonly Rule[] | null;
  readonly only: RefPolicy | null;
  readonly except: RefPolicy | null;
  /** Which variables of the root reach the job. */
  readonly root_variables: boolean | readonly string[];
  /** Whether the file says if the job may fail. */
  readonly says_allow_failure: boolean;
  /** How many lines of the script come from `before_script`. */
  readonly before_lines: number;
}

/** `never` leaves the job out. */
export type RuleWhen = RunWhen | 'never';

export interface Rule {
  readonly if: Expression | null;
  readonly if_text: string | null;
  readonly changes: ChangesClause | null;
  readonly exists: ExistsClause | null;
  /** Null: that of the job. */
  readonly when: RuleWhen | null;
  readonly start_in: number | null;
  readonly allow_failure: boolean | null;
  readonly allow_failure_exit_codes: readonly number[] | null;
  readonly variables: readonly FileVariable[];
  readonly needs: readonly Need[] | null;
  readonly interruptible: boolean | null;
  /** Only in `workflow:rules`. */
  readonly auto_cancel: AutoCancel | null;
}

export interface ChangesClause {
  readonly paths: readonly string[];
  readonly compare_to: string | null;
}

export interface ExistsClause {
  readonly paths: readonly string[];
  readonly project: string | null;
  readonly ref: string | null;
}

/** `only` and `except`. */
export interface RefPolicy {
  readonly refs: readonly string[] | null;
  readonly variables: readonly Expression[] | null;
  readonly changes: readonly string[] | null;
}
