import { sql } from 'kysely';
import { getSettings, type StoredSettings } from '#domains/settings/queries.ts';
import type { Context, Services } from '#platform/context.ts';
import { conflict, type DomainError, forbidden } from '#platform/errors.ts';
import { digestToken } from '#platform/secrets.ts';
import { webUrl } from '#platform/urls.ts';
import { termsAccepted } from './events.ts';
import { requireUser } from './policy.ts';

/** The page that shows the terms. */
export const TERMS_PATH = '/-/users/terms';

export interface Terms {
  readonly text: string;
  /** The digest of the text, so a changed text is another version. */
  readonly version: string;
}

/** Hashing long terms for each request would cost more than the rest of authentication. */
const known = new WeakMap<StoredSettings, Terms>();

const termsOf = (settings: StoredSettings): Terms | null => {
  const text = settings.terms.trim();
  if (text === '') return null;
  const terms = known.get(settings) ?? { text, version: digestToken(text).toString('base64url') };
  known.set(settings, terms);
  return terms;
};

/** Returns the terms of the hub, or null when there are none. */
export const getTerms = async (ctx: Pick<Context, 'services'>): Promise<Terms | null> =>
  termsOf(await getSettings(ctx));

/** Returns the version that users must have accepted, or null while the setting `enforce_terms` is off. */
export const enforcedTerms = async (services: Services): Promise<string | null> => {
  const settings = await getSettings({ services });
  return settings.enforce_terms ? (termsOf(settings)?.version ?? null) : null;
};

/** The columns that decide whether an account has to accept the terms. */
export interface TermsAccount {
  readonly user_type: string;
  readonly is_admin: boolean;
  readonly accepted_terms: string | null;
}

/**
 * Returns the refusal of an API or git client whose user has not accepted the terms, or null. Bots cannot accept
 * anything. Administrators are asked on the web only, so that those who set the terms cannot lock themselves out.
 */
export const refusalByTerms = async (services: Services, account: TermsAccount): Promise<DomainError | null> => {
  if (account.user_type !== 'human' || account.is_admin) return null;
  const version = await enforcedTerms(services);
  return version === null || account.accepted_terms === version ? null : mustAccept(services);
};

const mustAccept = (services: Services): DomainError =>
  forbidden(
    `You must accept the terms of service first. Open ${webUrl({ services }, TERMS_PATH.slice(1))} in a browser.`,
  );

/** Refuses the session of a user who must accept the terms first, unless they are an administrator. @throws `forbidden` */
export const requireTermsAccepted = async (ctx: Pick<Context, 'actor' | 'services'>): Promise<void> => {
  const { isAdmin, needsAdminMode } = ctx.actor;
  if (!isAdmin && !needsAdminMode && (await mustAcceptTerms(ctx))) throw mustAccept(ctx.services);
};

/** Whether the pages of the session must first show the terms. Administrators are asked too. */
export const mustAcceptTerms = async ({ actor, services }: Pick<Context, 'actor' | 'services'>): Promise<boolean> => {
  const version = await enforcedTerms(services);
  return version !== null && actor.acceptedTerms !== undefined && actor.acceptedTerms !== version;
};

/**
 * Stores that the caller accepts this version of the terms, with its text. Repeating it is not an error.
 *
 * @throws `conflict` when the terms have another version by now, which the caller has not seen
 */
export const acceptTerms = async (ctx: Context, version: string): Promise<void> => {
  const userId = requireUser(ctx);
  const terms = await getTerms(ctx);
  if (terms?.version !== version) throw conflict('The terms have changed. Read them again.');
  await ctx.transaction(async (tx) => {
    await tx.db
      .insertInto('terms_versions')
      .values({ version, text: terms.text })
      .onConflict((clash) => clash.doNothing())
      .execute();
    const { numUpdatedRows } = await tx.db
      .updateTable('users')
      .set({ accepted_terms: version, terms_accepted_at: sql`now()` })
      .where('id', '=', userId)
      .where('accepted_terms', 'is distinct from', version)
      .executeTakeFirst();
    if (numUpdatedRows === 0n) return;
    tx.emit(termsAccepted, {
      subject: { type: 'User', id: userId },
      user_ids: [userId],
      payload: { user_id: userId, version },
    });
  });
};
