import { type CacheProvider, SAML, type SamlConfig, ValidateInResponseTo } from '@node-saml/node-saml';
import { z } from 'zod';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';

/** Where browsers bring the provider's answers. */
export const CALLBACK = '/users/auth/saml/callback';
const METADATA = '/users/auth/saml/metadata';

/** How long people have to sign in at the provider. */
export const REQUEST_SECONDS = 600;
/** How far clocks may be apart. */
const SKEW_MS = 30_000;

/** What the provider says of somebody, once all of it was verified. */
export interface SamlPerson {
  /** Of the request that this answers. */
  readonly requestId: string;
  readonly nameId: string;
  readonly email: string | null;
  readonly name: string | null;
  readonly username: string | null;
  readonly groups: readonly string[];
}

/** What does not hold, in words for the log. */
export class SamlRefusal extends Error {
  override readonly name = 'SamlRefusal';
}

type Asking = Pick<Context, 'services'>;

/** The document that the provider is set up with. @throws `not_found` where SAML is not configured */
export const samlMetadata = (ctx: Asking): string =>
  samlOf(ctx, { cacheProvider: unused }).generateServiceProviderMetadata(null);

/**
 * Where to send somebody to sign in; `remember` keeps the id of the request.
 *
 * @throws `not_found` where SAML is not configured
 */
export const signInUrl = (ctx: Asking, id: string, remember: () => Promise<void>): Promise<string> => {
  const cacheProvider: CacheProvider = {
    ...unused,
    saveAsync: async (_id, value) => {
      await remember();
      return { value, createdAt: Date.now() };
    },
  };
  return samlOf(ctx, { cacheProvider, generateUniqueId: () => id }).getAuthorizeUrlAsync('', undefined, {});
};

/**
 * Verifies an answer (a `samlp:Response` in base64): that the provider signed the assertion, for this hub, to be
 * delivered here, now, in answer to a request that `sentAt` knows. Only what stands in the signed bytes is read.
 *
 * @throws SamlRefusal; `not_found` where SAML is not configured
 */
export const verifyAnswer = async (
  ctx: Asking,
  response: string,
  sentAt: (requestId: string) => Promise<string | null>,
): Promise<SamlPerson> => {
  const saml = samlOf(ctx, { cacheProvider: { ...unused, getAsync: sentAt } });
  requireModest(Buffer.from(response, 'base64').toString('utf8'));
  const { profile } = await saml.validatePostResponseAsync({ SAMLResponse: response }).catch((error: unknown) => {
    throw new SamlRefusal(error instanceof Error ? error.message : String(error));
  });
  if (!profile) throw new SamlRefusal('it says nothing of anybody');
  const { nameID, nameIDFormat } = profile;
  if (!nameID || nameID.length > MAX_NAME_ID) throw new SamlRefusal('it names nobody');
  if (nameIDFormat === TRANSIENT) throw new SamlRefusal('the name is another one each time (transient)');
  const { samlAttributes: names } = ctx.services.config;
  const attributes = attributesOf(profile.attributes);
  const first = (name: string): string | null => attributes.get(name)?.[0] ?? null;
  return {
    requestId: confirmedRequest(profile.getAssertion?.(), saml.options.callbackUrl),
    nameId: nameID,
    email: first(names.email),
    name: first(names.name),
    username: first(names.username),
    groups: attributes.get(names.groups) ?? [],
  };
};

/** Five hundred groups fit in. */
const MAX_BYTES = 128 * 1024;
const MAX_NODES = 600;
const MAX_ATTRIBUTES = 1_500;

/**
 * Whoever can reach the callback can have something parsed, and the library takes time that grows with the square of how
 * many nodes there are: tens of seconds for a hundred kilobytes of comments. This counts in one pass, before.
 */
const requireModest = (xml: string): void => {
  // No provider declares one; what it could hold is best never parsed.
  if (/<!(DOCTYPE|ENTITY)/i.test(xml)) throw new SamlRefusal('it declares a document type');
  const nodes = xml.match(/<[^/]/g)?.length ?? 0;
  const attributes = xml.match(/=\s*["']/g)?.length ?? 0;
  if (xml.length > MAX_BYTES || nodes > MAX_NODES || attributes > MAX_ATTRIBUTES) {
    throw new SamlRefusal(`it is too large (${xml.length} bytes, ${nodes} nodes, ${attributes} attributes)`);
  }
};

const MAX_NAME_ID = 255;
const TRANSIENT = 'urn:oasis:names:tc:SAML:2.0:nameid-format:transient';
const BEARER = 'urn:oasis:names:tc:SAML:2.0:cm:bearer';

/** A request or metadata needs none of these. */
const unused: CacheProvider = {
  saveAsync: (_key, value) => Promise.resolve({ value, createdAt: Date.now() }),
  getAsync: () => Promise.resolve(null),
  // A request is used up with the session that it leads to, in one transaction: not here.
  removeAsync: () => Promise.resolve(null),
};

const samlOf = ({ services: { config, urls } }: Asking, options: Partial<SamlConfig>): SAML => {
  if (config.samlEntryPoint === null) throw notFound();
  const entityId = config.samlEntityId ?? urls.base + METADATA;
  return new SAML({
    entryPoint: config.samlEntryPoint,
    callbackUrl: urls.base + CALLBACK,
    issuer: entityId,
    audience: entityId,
    idpCert: [...config.samlCertificates],
    // What is believed is the assertion: whether the envelope is signed too says nothing more.
    wantAssertionsSigned: true,
    wantAuthnResponseSigned: false,
    validateInResponseTo: ValidateInResponseTo.always,
    requestIdExpirationPeriodMs: REQUEST_SECONDS * 1_000,
    acceptedClockSkewMs: SKEW_MS,
    // The provider knows best what names it has, and how people prove who they are.
    identifierFormat: null,
    disableRequestedAuthnContext: true,
    ...options,
  });
};

const confirmationData = z.object({
  $: z.object({ Recipient: z.string(), NotOnOrAfter: z.string(), InResponseTo: z.string() }),
});
const assertion = z.object({
  Assertion: z.object({
    Subject: z
      .array(
        z.object({
          SubjectConfirmation: z.array(
            z.object({ $: z.object({ Method: z.string() }), SubjectConfirmationData: z.array(z.unknown()) }),
          ),
        }),
      )
      .length(1),
  }),
});

/**
 * The request that a bearer confirmation of the subject answers, delivered here and in time (SAML profiles §4.1.4.3).
 * The library does not look at the recipient, and lets the rest be absent.
 */
const confirmedRequest = (signed: unknown, recipient: string): string => {
  const parsed = assertion.safeParse(signed);
  const confirmations = parsed.data?.Assertion.Subject[0]?.SubjectConfirmation ?? [];
  for (const { $, SubjectConfirmationData: each } of confirmations) {
    const data = confirmationData.safeParse(each[0]).data?.$;
    if ($.Method !== BEARER || !data || data.Recipient !== recipient) continue;
    if (Date.parse(data.NotOnOrAfter) + SKEW_MS > Date.now()) return data.InResponseTo;
  }
  throw new SamlRefusal('no confirmation of the subject is for this hub, now');
};

const MAX_VALUES = 10_000;

/** Values that are text, by the name of their attribute. */
const attributesOf = (given: unknown): ReadonlyMap<string, readonly string[]> => {
  const found = new Map<string, readonly string[]>();
  if (typeof given !== 'object' || given === null) return found;
  for (const [name, value] of Object.entries(given)) {
    const values: unknown[] = Array.isArray(value) ? value : [value];
    const texts = values.flatMap((each) => (typeof each === 'string' && isPlain(each) ? [each] : []));
    found.set(name, texts.slice(0, MAX_VALUES));
  }
  return found;
};

const isPlain = (text: string): boolean => text !== '' && !text.includes('\0') && text.isWellFormed();
