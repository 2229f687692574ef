import { findUser } from '#domains/users/queries.ts';
import { type Actor, anonymous, type Context } from '#platform/context.ts';
import { type ImportRow, TransferError } from '../model.ts';

export type Importer = Actor & { readonly name: string; readonly userId: number };

/** Returns the user who started the import, with the rights of now. @throws TransferError if they are not active */
export const importerOf = async (
  ctx: Context,
  row: Pick<ImportRow, 'user_id' | 'by_administrator'>,
): Promise<Importer> => {
  const user = row.user_id === null ? null : await findUser(ctx, row.user_id);
  if (user?.state !== 'active')
    throw new TransferError('The account of the user who started the import is no longer active.');
  // The job may have waited. A user who has lost administrator rights must not use them here.
  const isAdmin = row.by_administrator && user.is_admin;
  const isExternal = user.external;
  return { ...anonymous, userId: user.id, username: user.username, name: user.name, isAdmin, isExternal };
};
