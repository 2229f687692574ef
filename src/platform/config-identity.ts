import { X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { z } from 'zod';
import { readServers } from './ldap/servers.ts';
import { infos } from './setting-infos.ts';

/** Which attributes of a SAML assertion say what. */
export interface SamlAttributes {
  readonly email: string;
  readonly name: string;
  readonly username: string;
  readonly groups: string;
}

const SAML_ATTRIBUTES: SamlAttributes = { email: 'email', name: 'name', username: 'username', groups: 'groups' };
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g;

/** Text as given, or what the file of that path holds. @throws when it is neither `looksRight` nor a file */
const textOrFile = (given: string, looksRight: (text: string) => boolean): string => {
  if (looksRight(given)) return given;
  try {
    return readFileSync(given, 'utf8');
  } catch {
    // Node's message repeats what was given, which may hold a password.
    throw new Error('is not a file that can be read');
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

/** The settings of where else people are known: a SAML provider, directories. */
export const identitySettings = {
  samlEntryPoint: z.string().refine(isHttpUrl).nullable().default(null).register(infos, {
    variable: 'MILLRACE_SAML_ENTRY_POINT',
    flag: 'saml-entry-point',
    value: 'URL',
    description: 'Where the SAML provider takes sign-in requests (HTTP-Redirect binding); turns SAML on',
    allowed: 'an http or https URL',
    defaultText: 'none: nobody signs in by SAML',
  }),
  samlCertificates: z
    .string()
    .transform((given, context) => readOrRefuse(context, () => readCertificates(given)))
    .default([])
    .register(infos, {
      variable: 'MILLRACE_SAML_CERTIFICATE',
      flag: 'saml-certificate',
      value: 'PEM',
      description: 'Certificates that the SAML provider signs with: two while it changes them',
      allowed: 'certificates in PEM, or the path of a file that holds them',
      defaultText: 'none',
    }),
  samlEntityId: z.string().min(1).max(1_024).regex(/^\S+$/).nullable().default(null).register(infos, {
    variable: 'MILLRACE_SAML_ENTITY_ID',
    flag: 'saml-entity-id',
    value: 'ID',
    description: 'What the hub is called at the SAML provider: the audience that assertions have to name',
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
      description: 'Attributes of assertions that hold the address, the name, the user name and the groups of a person',
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
      description: 'Whether who signs in by SAML for the first time gets an account; else administrators link accounts',
      allowed: 'true or false',
      defaultText: 'false',
    }),
  samlLabel: z.string().trim().min(1).max(100).default('SAML').register(infos, {
    variable: 'MILLRACE_SAML_LABEL',
    flag: 'saml-label',
    value: 'NAME',
    description: 'What the page to sign in calls the SAML provider',
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
      description: 'LDAP directories that groups can be linked to and people sign in by (docs/directory.md)',
      allowed: 'a list of servers in JSON as docs/directory.md has it, or the path of a file that holds one',
      defaultText: 'none',
      secret: true,
    }),
};
