import { hookPolicy } from '#domains/settings/outbound.ts';
import type { Context } from '#platform/context.ts';
import { type FieldErrors, tooLong } from '#platform/errors.ts';
import { validHeader } from '#platform/http-client/headers.ts';
import { OutboundError } from '#platform/http-client/http-client.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import { isStorable } from '#platform/values/storable.ts';
import { checkUrlText } from './address.ts';
import { BRANCH_FILTER_STRATEGIES, compileFilter } from './model.ts';
import { signingKey } from './signing.ts';
import type { Toggles } from './triggers.ts';

/** The attributes of a hook. An absent attribute stays unchanged; null or an empty text clears it. */
export interface HookAttributes {
  readonly url?: string | undefined;
  readonly name?: string | null | undefined;
  readonly description?: string | null | undefined;
  /** Secrets. The API never returns them. */
  readonly token?: string | null | undefined;
  readonly signing_token?: string | null | undefined;
  readonly custom_headers?: readonly KeyValue[] | undefined;
  readonly url_variables?: readonly KeyValue[] | undefined;
  readonly custom_webhook_template?: string | null | undefined;
  readonly enable_ssl_verification?: boolean | undefined;
  readonly push_events_branch_filter?: string | null | undefined;
  readonly branch_filter_strategy?: string | undefined;
  readonly toggles?: Partial<Toggles> | undefined;
}

export interface KeyValue {
  readonly key: string;
  readonly value: string;
}

const MAX_HEADERS = 20;
const MAX_VARIABLES = 50;
const MAX_URL = 2_048;
const MAX_TOKEN = 255;
const VARIABLE_KEY = /^[A-Za-z][\w.-]{0,254}$/;
const MAX_VARIABLE_VALUE = 2_048;

/** Returns the problems by attribute, as far as they can be found without the stored hook. */
export const problemsOf = (given: HookAttributes): FieldErrors => {
  const problems: Record<string, string[]> = {};
  const add = (field: string, problem: string) => {
    problems[field] = [...(problems[field] ?? []), problem];
  };
  const limits = {
    url: MAX_URL,
    name: 255,
    description: 2_048,
    custom_webhook_template: 4_096,
    token: MAX_TOKEN,
  } as const;
  for (const field of ['url', 'name', 'description', 'custom_webhook_template', 'token'] as const) {
    const text = given[field] ?? '';
    if (isLongerThan(text, limits[field])) add(field, tooLong(limits[field]));
    if (!isStorable(text)) add(field, 'is invalid');
  }
  if (given.url !== undefined && given.url.trim() === '') add('url', "can't be blank");
  if (given.token && !validHeader('X-Gitlab-Token', given.token.replace(/[\r\n]/g, ''))) add('token', 'is invalid');
  if (given.signing_token && !signingKey(given.signing_token))
    add('signing_token', 'must be whsec_ and the base64 of 24 to 64 bytes');
  checkHeaders(given.custom_headers, add);
  checkVariables(given.url_variables, add);
  const { branch_filter_strategy: strategy } = given;
  if (strategy !== undefined && !BRANCH_FILTER_STRATEGIES.some((each) => each === strategy))
    add('branch_filter_strategy', 'is invalid');
  return problems;
};

const checkHeaders = (headers: readonly KeyValue[] | undefined, add: (field: string, problem: string) => void) => {
  if (!headers) return;
  if (headers.length > MAX_HEADERS) add('custom_headers', `are too many (maximum is ${MAX_HEADERS})`);
  // CR, LF and the headers that frame the message are refused by name and value (CVE-2025-6454).
  for (const { key, value } of headers) if (!validHeader(key, value)) add('custom_headers', `${shown(key)} is invalid`);
  if (hasTwice(headers.map(({ key }) => key.toLowerCase()))) add('custom_headers', 'have a key twice');
};

const checkVariables = (variables: readonly KeyValue[] | undefined, add: (field: string, problem: string) => void) => {
  if (!variables) return;
  if (variables.length > MAX_VARIABLES) add('url_variables', `are too many (maximum is ${MAX_VARIABLES})`);
  for (const { key, value } of variables)
    if (!VARIABLE_KEY.test(key) || value.length > MAX_VARIABLE_VALUE || !/^[\x21-\x7e]+$/.test(value))
      add('url_variables', `${shown(key)} is invalid`);
  if (hasTwice(variables.map(({ key }) => key))) add('url_variables', 'have a key twice');
};

const hasTwice = (keys: readonly string[]) => new Set(keys).size < keys.length;

const shown = (key: string) => JSON.stringify(key.slice(0, 100));

/** Returns whether the filter is valid for the given `branch_filter_strategy`. */
export const isFilter = (strategy: string, filter: string): boolean => {
  if (filter.length > 1_024) return false;
  try {
    compileFilter(strategy, filter);
    return true;
  } catch {
    return false;
  }
};

/**
 * Returns the problem with the address after its variables are filled in, or null if deliveries may go there. A name
 * that does not resolve now is accepted, because each delivery checks the address again.
 */
export const addressProblem = async (
  ctx: Context,
  { isSystem, url, filled }: { readonly isSystem: boolean; readonly url: string; readonly filled: string },
): Promise<string | null> => {
  const policy = await hookPolicy(ctx, { isSystem });
  try {
    if (!checkUrlText(url, filled, policy)) return 'is invalid';
    await ctx.services.http.check(filled, policy);
    return null;
  } catch (error) {
    if (!(error instanceof OutboundError)) throw error;
    return error.kind === 'blocked' ? `is blocked: ${error.message.replace(/^URL is (?:blocked: )?/, '')}` : null;
  }
};
