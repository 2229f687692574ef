import { mustAcceptTerms, requireTermsAccepted, TERMS_PATH } from '#domains/users/terms.ts';
import type { Context } from '#platform/context.ts';
import { mustEnrol, requireEnrolled } from '../enrolment.ts';
import { ENTER } from './admin-mode.ts';
import { withReturn } from './return-to.ts';
import { TWO_FACTOR } from './two-factor.ts';

/** Something that the user of a session must do before anything else opens. */
interface Obligation {
  /** The page where they do it. */
  readonly page: string;
  /** Whether that page leads on to the page that the user wanted. */
  readonly returns: boolean;
  readonly isDue: (ctx: Context) => Promise<boolean>;
  /** Refuses the session outside pages. @throws `forbidden` */
  readonly require: (ctx: Context) => Promise<void>;
}

/** In the order in which they are asked for. */
const OBLIGATIONS: readonly Obligation[] = [
  { page: TERMS_PATH, returns: true, isDue: mustAcceptTerms, require: requireTermsAccepted },
  { page: TWO_FACTOR, returns: false, isDue: mustEnrol, require: requireEnrolled },
];

/** Refuses a session whose user has an obligation, as the API does. @throws `forbidden` */
export const requireObligationsMet = async (ctx: Context): Promise<void> => {
  for (const obligation of OBLIGATIONS) await obligation.require(ctx);
};

/**
 * Returns the page to redirect a signed-in user to instead of `page`, or null: the page of their first obligation, or
 * admin mode before a page of administrators. Pages below `/users/`, such as sign-out and mailed links, never redirect.
 */
export const detourFor = async (
  ctx: Context,
  page: { readonly path: string; readonly returnTo: string | undefined },
): Promise<string | null> => {
  if (page.path.startsWith('/users/')) return null;
  for (const obligation of OBLIGATIONS) {
    if (page.path === obligation.page) return null;
    if (await obligation.isDue(ctx))
      return obligation.returns ? withReturn(obligation.page, page.returnTo) : obligation.page;
  }
  if (ctx.actor.needsAdminMode && /^\/admin\/(?!session)/.test(page.path)) return withReturn(ENTER, page.returnTo);
  return null;
};
