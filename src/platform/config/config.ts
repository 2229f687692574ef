import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { z } from 'zod';
import { isAddressRange } from '../caller/trusted-proxies.ts';
import { DEFAULT_PROCESSES } from '../git/process/bounds.ts';
import { DEFAULT_MEMORY_MIB } from '../git/process/memory-limit.ts';
import { LOG_LEVELS } from '../log.ts';
import { StartError } from '../process/start-error.ts';
import { edgeSettings } from './edge.ts';
import { identitySettings } from './identity.ts';
import { infos, type SettingInfo, wholeNumber } from './setting-infos.ts';

const oneOf = (values: readonly string[]) => `one of ${values.join(', ')}`;

const ROLES = ['all', 'web', 'worker'] as const;
const STORAGES = ['local', 's3'] as const;
const S3_DOWNLOADS = ['proxy', 'redirect'] as const;
const MIN_TOKEN_LENGTH = 20;
const MIN_PASSWORD_LENGTH = 8;
const MAX_PASSWORD_LENGTH = 128;

/** The single table of settings. Parsing, types, `--help` and the README's list come from it. */
const Settings = z.object({
  host: z
    .string()
    .regex(/^[A-Za-z0-9.:_-]+$/)
    .default('127.0.0.1')
    .register(infos, {
      variable: 'MILLRACE_HOST',
      flag: 'host',
      value: 'ADDRESS',
      description: 'Address to listen on; 0.0.0.0 or :: for all',
      allowed: 'a host name or an IP address',
      defaultText: '127.0.0.1',
    }),
  port: wholeNumber([0, 65_535], 8080, {
    variable: 'MILLRACE_PORT',
    flag: 'port',
    value: 'NUMBER',
    description: 'Port to listen on; 0 picks a free one',
  }),
  externalUrl: z
    .string()
    .refine(isBaseUrl)
    .transform((url) => url.replace(/\/+$/, ''))
    .nullable()
    .default(null)
    .register(infos, {
      variable: 'MILLRACE_EXTERNAL_URL',
      flag: 'external-url',
      value: 'URL',
      description: 'URL at which clients reach the hub; links start with it',
      allowed: 'an http or https URL without user, query and fragment',
      defaultText: 'from host and port',
    }),
  trustedProxies: z
    .string()
    .transform((text) => text.split(',').map((each) => each.trim()))
    .refine((ranges) => ranges.every(isAddressRange))
    .default([])
    .register(infos, {
      variable: 'MILLRACE_TRUSTED_PROXIES',
      flag: 'trusted-proxies',
      value: 'ADDRESSES',
      description: 'Proxies in front of the hub, whose X-Forwarded-For header gives the address of the caller',
      allowed: 'IP addresses and ranges such as 10.0.0.0/8, separated by commas',
      defaultText: 'none',
    }),
  metricsAddress: z
    .string()
    .transform(readAddress)
    .pipe(z.object({ host: z.string(), port: z.number().max(65_535) }))
    .nullable()
    .default(null)
    .register(infos, {
      variable: 'MILLRACE_METRICS_ADDRESS',
      flag: 'metrics-address',
      value: 'HOST:PORT',
      description: 'Separate address that serves only `/-/metrics`',
      allowed: 'a host name or an IP address and a port, such as 127.0.0.1:9090 or [::1]:9090',
      defaultText: 'none: metrics are served only with MILLRACE_METRICS_TOKEN',
    }),
  metricsToken: z
    .string()
    .min(MIN_TOKEN_LENGTH)
    .max(255)
    .regex(/^[!-~]+$/)
    .nullable()
    .default(null)
    .register(infos, {
      variable: 'MILLRACE_METRICS_TOKEN',
      flag: 'metrics-token',
      value: 'TOKEN',
      description:
        'Bearer token that `/-/metrics` requires; without a separate address it is served on the port of the hub',
      allowed: `${MIN_TOKEN_LENGTH} to 255 printable ASCII characters without spaces`,
      defaultText: 'none',
      secret: true,
    }),
  dataDir: z
    .string()
    .refine((path) => !path.includes('\0'))
    .default('.millrace')
    .transform((path) => resolve(path))
    .register(infos, {
      variable: 'MILLRACE_DATA_DIR',
      flag: 'data-dir',
      value: 'DIRECTORY',
      description: 'Directory for repositories, local storage, the instance key and the embedded Postgres',
      allowed: 'the path of a directory',
      defaultText: '.millrace',
    }),
  role: z
    .enum(ROLES)
    .default('all')
    .register(infos, {
      variable: 'MILLRACE_ROLE',
      flag: 'role',
      value: 'ROLE',
      description: 'Work of this process: serve requests (web), run jobs (worker), or both (all)',
      allowed: oneOf(ROLES),
      defaultText: 'all',
    }),
  adminToken: z
    .string()
    .min(MIN_TOKEN_LENGTH)
    .max(255)
    .regex(/^[!-~]+$/)
    .nullable()
    .default(null)
    .register(infos, {
      variable: 'MILLRACE_ADMIN_TOKEN',
      flag: 'admin-token',
      value: 'TOKEN',
      description: 'Access token of the first administrator, root: all scopes, no expiry',
      allowed: `${MIN_TOKEN_LENGTH} to 255 printable ASCII characters without spaces`,
      defaultText: 'generated and printed on first start',
      secret: true,
    }),
  adminPassword: z
    .string()
    .min(MIN_PASSWORD_LENGTH)
    .max(MAX_PASSWORD_LENGTH)
    .nullable()
    .default(null)
    .register(infos, {
      variable: 'MILLRACE_ADMIN_PASSWORD',
      flag: 'admin-password',
      value: 'PASSWORD',
      description: 'Password of the first administrator, root',
      allowed: `${MIN_PASSWORD_LENGTH} to ${MAX_PASSWORD_LENGTH} characters long`,
      defaultText: 'generated and printed on first start',
      secret: true,
    }),
  gitMemory: wholeNumber([64, 999_999], DEFAULT_MEMORY_MIB, {
    variable: 'MILLRACE_GIT_MEMORY',
    flag: 'git-memory',
    value: 'MEBIBYTES',
    description:
      'Memory of a git process, in addition to a part that grows with its repository; it limits the size of files that arrive as deltas',
  }),
  gitProcesses: wholeNumber([3, 9_999], DEFAULT_PROCESSES, {
    variable: 'MILLRACE_GIT_PROCESSES',
    flag: 'git-processes',
    value: 'NUMBER',
    description:
      'Concurrent git processes for short calls; fetches and pushes get the same number each, and one caller gets a third of each',
  }),
  logLevel: z
    .enum(LOG_LEVELS)
    .default('info')
    .register(infos, {
      variable: 'MILLRACE_LOG_LEVEL',
      flag: 'log-level',
      value: 'LEVEL',
      description: 'Least severe level to log, to standard error',
      allowed: oneOf(LOG_LEVELS),
      defaultText: 'info',
    }),
  databaseUrl: z.string().refine(isPostgresUrl).nullable().default(null).register(infos, {
    variable: 'DATABASE_URL',
    flag: 'database-url',
    value: 'URL',
    description: 'A Postgres 15 or later to use instead of the embedded one',
    allowed: 'a URL of the form postgresql://user:password@host:port/database',
    defaultText: 'the embedded Postgres in the data directory',
    secret: true,
  }),
  secretKey: z
    .string()
    .regex(/^[A-Za-z0-9+/]{43}=$/)
    .nullable()
    .default(null)
    .register(infos, {
      variable: 'MILLRACE_SECRET_KEY',
      flag: 'secret-key',
      value: 'KEY',
      description:
        'Key that encrypts secrets; must be the same for all processes of one database (openssl rand -base64 32)',
      allowed: '32 bytes in base64',
      defaultText: 'generated into the data directory',
      secret: true,
    }),
  replaceSecretKey: z
    .enum(['true', 'false'])
    .transform((text) => text === 'true')
    .default(false)
    .register(infos, {
      variable: 'MILLRACE_REPLACE_SECRET_KEY',
      flag: 'replace-secret-key',
      value: 'BOOLEAN',
      description:
        'Once, if the secret key of the database is lost: starts with a new one, and cannot read the secrets',
      allowed: 'true or false',
      defaultText: 'false',
    }),
  storage: z
    .enum(STORAGES)
    .default('local')
    .register(infos, {
      variable: 'MILLRACE_STORAGE',
      flag: 'storage',
      value: 'KIND',
      description: 'Storage for archives and uploads: the data directory, or S3 (with the standard AWS_* variables)',
      allowed: oneOf(STORAGES),
      defaultText: 'local',
    }),
  s3Bucket: z
    .string()
    .regex(/^[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]$/)
    .nullable()
    .default(null)
    .register(infos, {
      variable: 'MILLRACE_S3_BUCKET',
      flag: 's3-bucket',
      value: 'NAME',
      description: 'Bucket to use with MILLRACE_STORAGE=s3',
      allowed: 'the name of a bucket (3 to 63 lower-case letters, digits, dots and hyphens)',
      defaultText: 'none',
    }),
  s3Downloads: z
    .enum(S3_DOWNLOADS)
    .default('proxy')
    .register(infos, {
      variable: 'MILLRACE_S3_DOWNLOADS',
      flag: 's3-downloads',
      value: 'WAY',
      description: 'How clients download artifacts with MILLRACE_STORAGE=s3: through the hub, or with a redirect to S3',
      allowed: oneOf(S3_DOWNLOADS),
      defaultText: 'proxy',
    }),
  smtpUrl: z.string().refine(isSmtpUrl).nullable().default(null).register(infos, {
    variable: 'MILLRACE_SMTP_URL',
    flag: 'smtp-url',
    value: 'URL',
    description: 'Mail server for mails to users',
    allowed: 'a URL of the form smtp://user:password@host:587 or smtps://user:password@host:465',
    defaultText: 'none: mails are appended to `mail.log` in the data directory',
    secret: true,
  }),
  mailFrom: z
    .string()
    .max(254)
    .regex(/^[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]+@[A-Za-z0-9.-]+$/)
    .nullable()
    .default(null)
    .register(infos, {
      variable: 'MILLRACE_MAIL_FROM',
      flag: 'mail-from',
      value: 'ADDRESS',
      description: 'Sender address of mails',
      allowed: 'an e-mail address',
      defaultText: "millrace at the external URL's host",
    }),
  ...edgeSettings,
  ...identitySettings,
});

/**
 * The settings of this process. `dataDir` is absolute. `externalUrl` has no trailing slash, and is null if it is
 * derived from the address that the hub listens on.
 */
export type Config = Readonly<z.output<typeof Settings>>;

/** Invalid settings, one line per problem. Safe to print: it repeats no secret. */
export class ConfigError extends StartError {
  override readonly name = 'ConfigError';
}

/** Returns all settings in the order of `--help`, for the README's list and its test. */
export const settingInfos = (): SettingInfo[] => [...infosByKey.values()];

const infosByKey: ReadonlyMap<string, SettingInfo> = new Map(
  Object.entries(Settings.shape).map(([key, schema]) => {
    const info = infos.get(schema);
    if (!info) throw new Error(`The setting ${key} is not described.`);
    return [key, info];
  }),
);

/** Returns the description of all settings, for `--help`. */
export const helpText = (usage = 'npm start -- [flags]'): string => {
  const lines = settingInfos().map(
    ({ flag, value, variable, description, defaultText }) =>
      `  --${flag} ${value}\n      ${description}.\n      Variable ${variable}. Default: ${defaultText}.`,
  );
  return `Usage: ${usage}\n\nA flag takes precedence over its variable; an empty variable counts as unset.\n\n${lines.join('\n')}\n  --help\n      Show this text.\n`;
};

/** Returns true if the arguments ask for `helpText()` instead of a start. */
export const wantsHelp = (argv: readonly string[]): boolean => argv.includes('--help') || argv.includes('-h');

/**
 * Reads the settings from the arguments (without node and script) and the environment. A flag takes precedence over its
 * variable.
 *
 * @throws ConfigError naming the variable and flag of each invalid value, and the allowed values
 */
export const readConfig = (argv: readonly string[], env: Readonly<Record<string, string | undefined>>): Config => {
  const flags = readFlags(argv);
  const input: Record<string, string> = {};
  for (const [key, info] of infosByKey) {
    const value = flags[info.flag] ?? (env[info.variable] || undefined);
    if (value !== undefined) input[key] = value;
  }
  const parsed = Settings.safeParse(input);
  if (!parsed.success) {
    const wrong = new Map(parsed.error.issues.map((issue) => [String(issue.path[0]), issue]));
    throw new ConfigError([...wrong].map(([key, issue]) => describeProblem(key, input[key], issue)).join('\n'));
  }
  if (parsed.data.storage === 's3' && parsed.data.s3Bucket === null) {
    throw new ConfigError(
      'MILLRACE_S3_BUCKET (--s3-bucket) is missing: MILLRACE_STORAGE=s3 needs the name of a bucket.',
    );
  }
  if (parsed.data.samlEntryPoint !== null && parsed.data.samlCertificates.length === 0) {
    throw new ConfigError(
      'MILLRACE_SAML_CERTIFICATE (--saml-certificate) is missing: SAML assertions could not be verified.',
    );
  }
  return parsed.data;
};

const readFlags = (argv: readonly string[]): Readonly<Record<string, string | undefined>> => {
  const options = Object.fromEntries(settingInfos().map(({ flag }) => [flag, { type: 'string' as const }]));
  try {
    return parseArgs({ args: [...argv], options, strict: true, allowPositionals: false }).values;
  } catch (error) {
    // The messages of parseArgs name flags and extra words, never the value of a flag.
    throw new ConfigError(`${error instanceof Error ? error.message : String(error)} See --help.`);
  }
};

const describeProblem = (key: string, value: string | undefined, { code, message }: z.core.$ZodIssue): string => {
  const info = infosByKey.get(key);
  if (!info) return `The setting ${key} is unknown.`;
  const shown = info.secret ? 'is not valid' : `is ${JSON.stringify(value)}`;
  // Zod's default message adds no information.
  const reason = code === 'custom' && message !== 'Invalid input' ? ` (${message})` : '';
  return `${info.variable} (--${info.flag}) ${shown}${reason}; it must be ${info.allowed}.`;
};

/**
 * Parses `127.0.0.1:9090` and `[::1]:9090` to host and port. Returns null for anything else, which the schema refuses.
 */
function readAddress(text: string): { host: string; port: number } | null {
  const [, ipv6, name, port] = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9._-]+)):(\d{1,5})$/.exec(text) ?? [];
  const host = ipv6 ?? name;
  return host === undefined ? null : { host, port: Number(port) };
}

function isBaseUrl(text: string): boolean {
  const url = URL.parse(text);
  return (
    url !== null &&
    (url.protocol === 'http:' || url.protocol === 'https:') &&
    url.username === '' &&
    url.password === '' &&
    !/[?#\s]/.test(text)
  );
}

function isPostgresUrl(text: string): boolean {
  return /^postgres(ql)?:\/\/\S*$/.test(text);
}

function isSmtpUrl(text: string): boolean {
  const url = URL.parse(text);
  return url !== null && /^smtps?:\/\/\S+$/.test(text) && url.hostname !== '' && /^\/?$/.test(url.pathname);
}
