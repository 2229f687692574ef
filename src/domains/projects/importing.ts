import type { Context, Tx } from '#platform/context.ts';
import { definePort } from '#platform/port.ts';
import type { ProjectRow } from './model.ts';

/** The checked source of a new project's repository. */
export interface CheckedSource {
  readonly import_type: string;
  /** The address without credentials. */
  readonly shown: string;
  /** Queues the import in the transaction that creates the project. */
  begin(tx: Tx, project: ProjectRow): Promise<void>;
}

/** Checks the address to import a new project's repository from. Transfers implement it. @throws DomainError */
export const checkImportSource = definePort<Context, [address: string], Promise<CheckedSource>>(
  'projects.check_import_source',
);
