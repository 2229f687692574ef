import type { CacheProvider, SAML, SamlConfig } from '@node-saml/node-saml';
import { z } from 'zod';
import type { Context } from '#platform/context.ts';
import { notFound } from '#platform/errors.ts';
import { isStorable } from '#platform/values/storable.ts';

/** The path that browsers post the provider's responses to. */
export const CALLBACK = '/users/auth/saml/callback';
const METADATA = '/users/auth/saml/metadata';

/** How long a user has to sign in at the provider, in seconds. */
export const REQUEST_SECONDS = 600;
/** The allowed clock skew, in milliseconds. */
const SKEW_MS = 30_000;

/** The person in a verified response. */
export interface SamlPerson {
  /** The id of the request that this answers. */
  readonly requestId: string;
  readonly nameId: string;
  readonly email: string | null;
  readonly name: string | null;
  readonly username: string | null;
  readonly groups: readonly string[];
}

/** The reason a response is refused, for the log. */
export class SamlRefusal extends Error {
  override readonly name = 'SamlRefusal';
}

type SamlContext = Pick<Context, 'services'>;

/** Returns the metadata that the provider is set up with. @throws `not_found` when SAML is not configured */
export const samlMetadata = async (ctx: SamlContext): Promise<string> =>
  (await samlOf(ctx, { cacheProvider: unused })).generateServiceProviderMetadata(null);

/**
 * Returns the URL that starts the sign-in at the provider. `remember` stores the id of the request.
 *
 * @throws `not_found` when SAML is not configured
 */
export const signInUrl = async (ctx: SamlContext, id: string, remember: () => Promise<void>): Promise<string> => {
  const cacheProvider: CacheProvider = {
    ...unused,
    saveAsync: async (_id, value) => {
      await remember();
      return { value, createdAt: Date.now() };
    },
  };
  const saml = await samlOf(ctx, { cacheProvider, generateUniqueId: () => id });
  return saml.getAuthorizeUrlAsync('', undefined, {});
};

/**
 * Verifies a response (`samlp:Response` in base64). The provider must have signed the assertion for this hub and this
 * address, it must be valid now, and it must answer a request that `sentAt` knows. Only signed content is read.
 *
 * @throws SamlRefusal; `not_found` when SAML is not configured
 */
export const verifyAnswer = async (
  ctx: SamlContext,
  response: string,
  sentAt: (requestId: string) => Promise<string | null>,
): Promise<SamlPerson> => {
  const saml = await samlOf(ctx, { cacheProvider: { ...unused, getAsync: sentAt } });
  requireModest(Buffer.from(response, 'base64').toString('utf8'));
  const { profile } = await saml.validatePostResponseAsync({ SAMLResponse: response }).catch((error: unknown) => {
    throw new SamlRefusal(error instanceof Error ? error.message : String(error));
  });
  if (!profile) throw new SamlRefusal('it identifies nobody');
  const { nameID, nameIDFormat } = profile;
  if (!nameID || nameID.length > MAX_NAME_ID) throw new SamlRefusal('it names nobody');
  if (nameIDFormat === TRANSIENT) throw new SamlRefusal('the name id is transient, so it changes with each sign-in');
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

/** Leaves room for five hundred groups. */
const MAX_BYTES = 128 * 1024;
const MAX_NODES = 600;
const MAX_ATTRIBUTES = 1_500;

/**
 * Limits the XML before it is parsed. Anyone can post to the callback, and the library's time grows with the square of
 * the number of nodes: a hundred kilobytes of comments take tens of seconds. This count takes one pass.
 */
const requireModest = (xml: string): void => {
  // No provider sends a document type, and parsing one is dangerous.
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

/** Requests and metadata do not use the cache. */
const unused: CacheProvider = {
  saveAsync: (_key, value) => Promise.resolve({ value, createdAt: Date.now() }),
  getAsync: () => Promise.resolve(null),
  // The request is used up with the session that it leads to, in one transaction elsewhere.
  removeAsync: () => Promise.resolve(null),
};

/** Loads the library when it is needed: most hubs have no SAML provider. */
const samlOf = async ({ services: { config, urls } }: SamlContext, options: Partial<SamlConfig>): Promise<SAML> => {
  if (config.samlEntryPoint === null) throw notFound();
  const { SAML, ValidateInResponseTo } = await import('@node-saml/node-saml');
  const entityId = config.samlEntityId ?? urls.base + METADATA;
  return new SAML({
    entryPoint: config.samlEntryPoint,
    callbackUrl: urls.base + CALLBACK,
    issuer: entityId,
    audience: entityId,
    idpCert: [...config.samlCertificates],
    // Only the assertion is trusted, so a signature on the envelope adds nothing.
    wantAssertionsSigned: true,
    wantAuthnResponseSigned: false,
    validateInResponseTo: ValidateInResponseTo.always,
    requestIdExpirationPeriodMs: REQUEST_SECONDS * 1_000,
    acceptedClockSkewMs: SKEW_MS,
    // The provider decides which name format and which authentication methods it uses.
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
 * Returns the id of the request that a bearer confirmation answers. The confirmation must be for this recipient and
 * unexpired (SAML profiles §4.1.4.3). The library does not check the recipient and treats the other attributes as
 * optional.
 */
const confirmedRequest = (signed: unknown, recipient: string): string => {
  const parsed = assertion.safeParse(signed);
  const confirmations = parsed.data?.Assertion.Subject[0]?.SubjectConfirmation ?? [];
  for (const { $, SubjectConfirmationData: each } of confirmations) {
    const data = confirmationData.safeParse(each[0]).data?.$;
    if ($.Method !== BEARER || !data || data.Recipient !== recipient) continue;
    if (Date.parse(data.NotOnOrAfter) + SKEW_MS > Date.now()) return data.InResponseTo;
  }
  throw new SamlRefusal('no subject confirmation is valid for this hub at this time');
};

const MAX_VALUES = 10_000;

/** Returns the text values by attribute name. */
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

const isPlain = (text: string): boolean => text !== '' && isStorable(text);
