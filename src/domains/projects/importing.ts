import type { Context, Tx } from '#platform/context.ts';
import type { ProjectRow } from './model.ts';

/** The checked source of a new project's repository. */
export interface CheckedSource {
  readonly import_type: string;
  /** The address without credentials. */
  readonly shown: string;
  /** Queues the import in the transaction that creates the project. */
  begin(tx: Tx, project: ProjectRow): Promise<void>;
}

type CheckSource = (ctx: Context, address: string) => Promise<CheckedSource>;

let check: CheckSource | null = null;

/** Registers the importer. The imports domain depends on projects, so the hub connects the two at start-up. */
export const importSourcesBy = (given: CheckSource): void => {
  check = given;
};

/** @throws DomainError as the imports domain documents */
export const checkSource: CheckSource = (ctx, address) => {
  if (!check) throw new Error('no import source is registered');
  return check(ctx, address);
};
