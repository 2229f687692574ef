import type { Page } from '#pages/page.ts';
import type { Context } from '#platform/context.ts';
import { mustEnrol } from './enrolment.ts';
import { accountPages } from './pages/account.ts';
import { ldapPages } from './pages/ldap.ts';
import { passwordResetPages } from './pages/password-reset.ts';
import { signInPages } from './pages/sign-in.ts';
import { TWO_FACTOR, twoFactorPages } from './pages/two-factor.ts';

export { begin, lead } from './pages/sign-in.ts';

export const pages: readonly Page[] = [
  ...signInPages,
  ...ldapPages,
  ...accountPages,
  ...passwordResetPages,
  ...twoFactorPages,
];

/**
 * Returns the page to redirect a signed-in user to: two-factor enrolment when it is due, otherwise null. Sign-out,
 * mailed links and the like stay open.
 */
export const detourFor = async (ctx: Context, path: string): Promise<string | null> =>
  path !== TWO_FACTOR && !path.startsWith('/users/') && (await mustEnrol(ctx)) ? TWO_FACTOR : null;
