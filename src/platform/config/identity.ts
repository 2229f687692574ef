import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { readServers } from '../ldap/servers.ts';
import { infos } from './setting-infos.ts';

/** The names of the attributes of a SAML assertion. */
export interface SamlAttributes {
  readonly email: string;
  readonly name: string;
  readonly username: string;
  readonly groups: string;
}

const SAML_ATTRIBUTES: SamlAttributes = { email: 'email', name: 'name', username: 'username', groups: 'groups' };
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g;

/**
 * Returns the text itself, or the content of the file at that path. @throws if it is neither `looksRight` nor a file
 */
const textOrFile = (given: string, looksRight: (text: string) => boolean): string => {
  if (looksRight(given)) return given;
  try {
    return readFileSync(given, 'utf8');
  } catch {
    // Node's message repeats the input, which may contain a password.
    throw new Error('is not a readable file');
  }
};

const readOrRefuse = <T>(context: z.core.$RefinementCtx, read: () => T): T => {
  try {
    return read();
  } catch (error) {
    context.addIssue({ code: 'custom', message: error instanceof Error ? error.message : String(error) });
    return z.NEVER;
  }
};

const readCertificates = (given: string): readonly string[] => {
  const found = textOrFile(given, (text) => text.includes('-----BEGIN ')).match(CERTIFICATE) ?? [];
  if (found.length === 0) throw new Error('holds no certificate');
  return found.map((pem) => new X509Certificate(pem).toString());
};

const readAttributes = (given: string): SamlAttributes => {
  const names = { ...SAML_ATTRIBUTES };
  for (const pair of given.split(',')) {
    const [, key, name] = /^\s*(email|name|username|groups)=(\S+)\s*$/.exec(pair) ?? [];
    if (name === undefined) throw new Error(`cannot read ${pair}`);
    if (key === 'email' || key === 'name' || key === 'username' || key === 'groups') names[key] = name;
  }
  return names;
};

const isHttpUrl = (text: string): boolean => /^https?:$/.test(URL.parse(text)?.protocol ?? '') && !/[#\s]/.test(text);

/** The settings of external identity sources: a SAML provider and LDAP directories. */
export const identitySettings = {
  samlEntryPoint: z.string().refine(isHttpUrl).nullable().default(null).register(infos, {
    variable: 'MILLRACE_SAML_ENTRY_POINT',
    flag: 'saml-entry-point',
    value: 'URL',
    description: 'URL of the SAML provider for sign-in requests (HTTP-Redirect binding); enables SAML',
    allowed: 'an http or https URL',
    defaultText: 'none: SAML is disabled',
  }),
  samlCertificates: z
    .string()
    .transform((given, context) => readOrRefuse(context, () => readCertificates(given)))
    .default([])
    .register(infos, {
      variable: 'MILLRACE_SAML_CERTIFICATE',
      flag: 'saml-certificate',
      value: 'PEM',
      description: 'Signing certificates of the SAML provider; two during a rollover',
      allowed: 'certificates in PEM, or the path of a file that contains them',
      defaultText: 'none',
    }),
  samlEntityId: z.string().min(1).max(1_024).regex(/^\S+$/).nullable().default(null).register(infos, {
    variable: 'MILLRACE_SAML_ENTITY_ID',
    flag: 'saml-entity-id',
    value: 'ID',
    description: 'Entity id of the hub at the SAML provider: the audience that assertions must name',
    allowed: 'text without spaces, of at most 1024 characters',
    defaultText: "the address of the hub's SAML metadata",
  }),
  samlAttributes: z
    .string()
    .transform((given, context) => readOrRefuse(context, () => readAttributes(given)))
    .default(SAML_ATTRIBUTES)
    .register(infos, {
      variable: 'MILLRACE_SAML_ATTRIBUTES',
      flag: 'saml-attributes',
      value: 'NAMES',
      description: 'Assertion attributes with the email, name, username and groups of a user',
      allowed: 'a list such as email=mail,name=displayName,username=uid,groups=memberOf',
      defaultText: 'email, name, username and groups',
    }),
  samlCreateUsers: z
    .enum(['true', 'false'])
    .transform((text) => text === 'true')
    .default(false)
    .register(infos, {
      variable: 'MILLRACE_SAML_CREATE_USERS',
      flag: 'saml-create-users',
      value: 'BOOLEAN',
      description:
        'Whether the first SAML sign-in of a user creates an account; otherwise administrators link accounts',
      allowed: 'true or false',
      defaultText: 'false',
    }),
  samlLabel: z.string().trim().min(1).max(100).default('SAML').register(infos, {
    variable: 'MILLRACE_SAML_LABEL',
    flag: 'saml-label',
    value: 'NAME',
    description: 'Name of the SAML provider on the sign-in page',
    allowed: '1 to 100 characters long',
    defaultText: 'SAML',
  }),
  ldapServers: z
    .string()
    .transform((given, context) =>
      readOrRefuse(context, () => readServers(textOrFile(given, (text) => /^\s*[[{]/.test(text)))),
    )
    .default([])
    .register(infos, {
      variable: 'MILLRACE_LDAP_SERVERS',
      flag: 'ldap-servers',
      value: 'JSON',
      description: 'LDAP directories for group links and sign-in (docs/directory.md)',
      allowed: 'a list of servers in JSON as in docs/directory.md, or the path of a file that contains one',
      defaultText: 'none',
      secret: true,
    }),
};
