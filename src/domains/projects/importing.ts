import type { Context, Tx } from '#platform/context.ts';
import type { ProjectRow } from './model.ts';

/** Where a new project's repository comes from: looked at, and found good. */
export interface CheckedSource {
  readonly import_type: string;
  /** The address without its credentials. */
  readonly shown: string;
  /** Adds to the transaction that makes the project what will fill it. */
  begin(tx: Tx, project: ProjectRow): Promise<void>;
}

type CheckSource = (ctx: Context, address: string) => Promise<CheckedSource>;

let check: CheckSource | null = null;

/** Imports lie to the right of projects, which have to be made from them: the hub puts the two together as it starts. */
export const importSourcesBy = (given: CheckSource): void => {
  check = given;
};

/** @throws DomainError as the domain of imports says */
export const checkSource: CheckSource = (ctx, address) => {
  if (!check) throw new Error('nobody imports');
  return check(ctx, address);
};
