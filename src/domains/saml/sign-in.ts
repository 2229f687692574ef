import { sql } from 'kysely';
import { z } from 'zod';
import { userOfPerson } from '#domains/sign-in/external.ts';
import { type SignInStep, signInAs } from '#domains/sign-in/sign-in.ts';
import type { Context } from '#platform/context.ts';
import { forbidden } from '#platform/errors.ts';
import { decrypt, digestToken, encrypt, randomToken } from '#platform/secrets.ts';
import { giveRoles } from './group-roles.ts';
import { REQUEST_SECONDS, SamlRefusal, signInUrl, verifyAnswer } from './provider.ts';

const ID_LENGTH = 40;
const CODE_LENGTH = 43;
/** How long the browser has to fetch the session after the provider's response, in seconds. */
const FETCH_SECONDS = 120;
const PURPOSE = 'saml answer';

/**
 * Starts a SAML sign-in. The browser keeps `id`, so that only this browser can finish the sign-in.
 *
 * @throws `not_found` when SAML is not configured
 */
export const beginSaml = async (
  ctx: Context,
  returnTo: string | null,
): Promise<{ readonly id: string; readonly location: string }> => {
  // An XML id must not start with a digit.
  const id = `_${randomToken(ID_LENGTH)}`;
  const location = await signInUrl(ctx, id, async () => {
    await sql`
      insert into saml_requests (id, return_to, expires_at)
      values (${id}, ${returnTo}, now() + make_interval(secs => ${REQUEST_SECONDS}))`.execute(ctx.db);
  });
  return { id, location };
};

/**
 * Verifies the provider's response. Any site can make a browser post one, so this signs nobody in. It returns a code
 * with the verified content, sealed, for the browser that started the sign-in. Each request can be answered once.
 *
 * @throws `forbidden` for a response that cannot be trusted (the log has the reason); `not_found` when SAML is not
 * configured
 */
export const receiveSamlAnswer = async (ctx: Context, response: string): Promise<string> => {
  try {
    const person = await verifyAnswer(ctx, response, (id) => sentAt(ctx, id));
    const code = randomToken(CODE_LENGTH);
    const answer = encrypt(ctx.services.secretKey, JSON.stringify(person), PURPOSE);
    const { numAffectedRows } = await sql`
      update saml_requests set answer = ${answer}, code_digest = ${digestToken(code)},
        expires_at = now() + make_interval(secs => ${FETCH_SECONDS})
      where id = ${person.requestId} and answer is null and expires_at > now()`.execute(ctx.db);
    if (numAffectedRows !== 1n) throw new SamlRefusal('the request was answered before');
    return code;
  } catch (error) {
    if (!(error instanceof SamlRefusal)) throw error;
    ctx.log.warn({ reason: error.message }, 'Refused a response from the SAML provider');
    throw forbidden('The response from your provider could not be verified. Please sign in again.');
  }
};

const sentAt = async ({ db }: Context, id: string): Promise<string | null> => {
  if (!/^_[\w-]{1,100}$/.test(id)) return null;
  const { rows } = await sql<{ epoch: number }>`
    select extract(epoch from expires_at)::float8 as epoch from saml_requests
    where id = ${id} and answer is null and expires_at > now()`.execute(db);
  const [row] = rows;
  return row ? new Date((row.epoch - REQUEST_SECONDS) * 1_000).toISOString() : null;
};

const answerSchema = z.object({
  nameId: z.string(),
  email: z.string().nullable(),
  name: z.string().nullable(),
  username: z.string().nullable(),
  groups: z.array(z.string()),
});

/**
 * Finishes the sign-in that this browser started (`id`), with the returned code. Syncs the roles with the groups and
 * signs in. Returns null when this browser did not start it, or it has expired.
 *
 * @throws `forbidden` with a reason to show: no account, or a closed one
 */
export const endSaml = async (
  ctx: Context,
  id: string,
  code: string,
): Promise<{ readonly step: SignInStep; readonly returnTo: string | null } | null> => {
  const { rows } = await sql<{ answer: Buffer; return_to: string | null }>`
    delete from saml_requests where id = ${id} and code_digest = ${digestToken(code)} and expires_at > now()
    returning answer, return_to`.execute(ctx.db);
  const [row] = rows;
  if (!row) return null;
  const person = answerSchema.parse(JSON.parse(decrypt(ctx.services.secretKey, row.answer, PURPOSE)));
  const userId = await userOfPerson(
    ctx,
    { ...person, provider: 'saml', externUid: person.nameId },
    { mayCreate: ctx.services.config.samlCreateUsers },
  );
  // Comes first, because a closed account must not get roles.
  const step = await signInAs(ctx, userId);
  await giveRoles(ctx, userId, person.groups);
  return { step, returnTo: row.return_to };
};
