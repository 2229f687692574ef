import { createHash, generateKeyPairSync, randomUUID, sign } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { inflateRawSync } from 'node:zlib';

const fixture = (name: string): string => readFileSync(new URL(`./fixtures/${name}`, import.meta.url), 'utf8');

export const CERTIFICATE = fixture('provider.crt');
const KEY = fixture('provider.key');
/** A key that does not belong to the provider. */
export const WRONG_KEY = generateKeyPairSync('rsa', { modulusLength: 2048 })
  .privateKey.export({ type: 'pkcs8', format: 'pem' })
  .toString();

/** A request as the provider reads it from the URL. */
export interface SentRequest {
  readonly id: string;
  readonly callback: string;
  readonly issuer: string;
  readonly destination: string;
}

export const readRequest = (location: string): SentRequest => {
  const sent = new URL(location).searchParams.get('SAMLRequest') ?? '';
  const xml = inflateRawSync(Buffer.from(sent, 'base64')).toString('utf8');
  const attribute = (name: string) => new RegExp(` ${name}="([^"]*)"`).exec(xml)?.[1] ?? '';
  return {
    id: attribute('ID'),
    callback: attribute('AssertionConsumerServiceURL'),
    issuer: />([^<]*)<\/saml:Issuer>/.exec(xml)?.[1] ?? '',
    destination: attribute('Destination'),
  };
};

export interface AssertionOptions {
  readonly nameId: string;
  readonly nameIdFormat?: string;
  readonly attributes?: Readonly<Record<string, string | readonly string[]>>;
  readonly audience?: string;
  readonly recipient?: string;
  readonly inResponseTo?: string;
  /** Lifetime in seconds from now. */
  readonly notOnOrAfter?: number;
  readonly key?: string;
}

const DSIG = 'http://www.w3.org/2000/09/xmldsig#';
const SAML = 'urn:oasis:names:tc:SAML:2.0:assertion';
const EXCLUSIVE = 'http://www.w3.org/2001/10/xml-exc-c14n#';

const escaped = (text: string): string => text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
const at = (seconds: number): string => new Date(Date.now() + seconds * 1_000).toISOString();

/** Returns an assertion in canonical form as two halves, between which the signature goes. */
const halves = (request: SentRequest, options: AssertionOptions, id: string): readonly [string, string] => {
  const { nameId, nameIdFormat = 'urn:oasis:names:tc:SAML:2.0:nameid-format:persistent', attributes = {} } = options;
  const { audience = request.issuer, recipient = request.callback, inResponseTo = request.id } = options;
  const until = at(options.notOnOrAfter ?? 300);
  const statements = Object.entries(attributes).map(([name, value]) => {
    const values = [value].flat().map((each) => `<saml:AttributeValue>${escaped(each)}</saml:AttributeValue>`);
    return `<saml:Attribute Name="${name}">${values.join('')}</saml:Attribute>`;
  });
  return [
    `<saml:Assertion xmlns:saml="${SAML}" ID="${id}" IssueInstant="${at(0)}" Version="2.0"><saml:Issuer>https://provider.example/saml</saml:Issuer>`,
    `<saml:Subject><saml:NameID Format="${nameIdFormat}">${escaped(nameId)}</saml:NameID><saml:SubjectConfirmation Method="urn:oasis:names:tc:SAML:2.0:cm:bearer"><saml:SubjectConfirmationData InResponseTo="${inResponseTo}" NotOnOrAfter="${until}" Recipient="${recipient}"></saml:SubjectConfirmationData></saml:SubjectConfirmation></saml:Subject><saml:Conditions NotBefore="${at(-60)}" NotOnOrAfter="${until}"><saml:AudienceRestriction><saml:Audience>${escaped(audience)}</saml:Audience></saml:AudienceRestriction></saml:Conditions><saml:AuthnStatement AuthnInstant="${at(0)}"><saml:AuthnContext><saml:AuthnContextClassRef>urn:oasis:names:tc:SAML:2.0:ac:classes:Password</saml:AuthnContextClassRef></saml:AuthnContext></saml:AuthnStatement>${statements.length > 0 ? `<saml:AttributeStatement>${statements.join('')}</saml:AttributeStatement>` : ''}</saml:Assertion>`,
  ];
};

const signatureOf = (canonical: string, id: string, key: string): string => {
  const digest = createHash('sha256').update(canonical).digest('base64');
  const info = (namespace: string) =>
    `<ds:SignedInfo${namespace}><ds:CanonicalizationMethod Algorithm="${EXCLUSIVE}"></ds:CanonicalizationMethod><ds:SignatureMethod Algorithm="http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"></ds:SignatureMethod><ds:Reference URI="#${id}"><ds:Transforms><ds:Transform Algorithm="${DSIG}enveloped-signature"></ds:Transform><ds:Transform Algorithm="${EXCLUSIVE}"></ds:Transform></ds:Transforms><ds:DigestMethod Algorithm="http://www.w3.org/2001/04/xmlenc#sha256"></ds:DigestMethod><ds:DigestValue>${digest}</ds:DigestValue></ds:Reference></ds:SignedInfo>`;
  // In canonical form it has the namespace declaration that its parent has in the document.
  const value = sign('sha256', Buffer.from(info(` xmlns:ds="${DSIG}"`)), key).toString('base64');
  return `<ds:Signature xmlns:ds="${DSIG}">${info('')}<ds:SignatureValue>${value}</ds:SignatureValue></ds:Signature>`;
};

/** Returns a signed assertion. */
export const signedAssertion = (request: SentRequest, options: AssertionOptions): string => {
  const id = `_${randomUUID()}`;
  const [head, tail] = halves(request, options, id);
  return head + signatureOf(head + tail, id, options.key ?? KEY) + tail;
};

/** Returns an unsigned assertion. */
export const plainAssertion = (request: SentRequest, options: AssertionOptions): string =>
  halves(request, options, `_${randomUUID()}`).join('');

/** Returns the XML of a response that contains the assertions. */
export const responseAround = (request: SentRequest, content: string, inResponseTo = request.id): string =>
  `<samlp:Response xmlns:samlp="urn:oasis:names:tc:SAML:2.0:protocol" ID="_${randomUUID()}" Version="2.0" IssueInstant="${at(0)}" Destination="${request.callback}" InResponseTo="${inResponseTo}"><saml:Issuer xmlns:saml="${SAML}">https://provider.example/saml</saml:Issuer><samlp:Status><samlp:StatusCode Value="urn:oasis:names:tc:SAML:2.0:status:Success"></samlp:StatusCode></samlp:Status>${content}</samlp:Response>`;

export const encoded = (xml: string): string => Buffer.from(xml).toString('base64');
