import { RE2JS } from 're2js';
import { z } from 'zod';
import { parseAddressRanges } from '#platform/caller/trusted-proxies.ts';
import { MAIL_ADDRESS } from '#platform/mail/mail-address.ts';
import { storable } from './define.ts';

/** In RE2 syntax, which matches in linear time. Empty means none. */
export const regularExpression = storable(1_000).refine((value) => {
  try {
    RE2JS.compile(value);
    return true;
  } catch {
    return false;
  }
}, 'is not a regular expression');

const domain = z
  .string()
  .max(253)
  .regex(/^[A-Za-z0-9.*-]+$/, 'is not a domain');

/** Names of domains. `*` stands for any part. */
export const domains = z.array(domain).max(1_000);

/** Names of hosts, addresses or networks. `*` stands for any part of a name. */
export const hosts = z
  .array(
    z
      .string()
      .max(255)
      .regex(/^[!-~]+$/, 'is not a host'),
  )
  .max(1_000);

/** The name of a host without a port, or empty. */
export const hostName = z
  .string()
  .max(253)
  .regex(
    /^([A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?)*)?$/,
    'is not a host name',
  );

/** An http or https URL, or empty. */
export const httpUrl = storable(2_000).refine((value) => {
  if (value === '') return true;
  const url = URL.canParse(value) ? new URL(value) : null;
  return url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '';
}, 'is not an http URL');

/** An address that mails can be sent to, or empty. */
export const emailAddress = storable(254).refine(
  (value) => value === '' || MAIL_ADDRESS.test(value),
  'is not an email address',
);

/** Addresses and networks, separated by commas or white space, or empty. */
export const networks = storable(10_000).refine(
  (value) => parseAddressRanges(value) !== null,
  'must be addresses or networks such as 192.0.2.0/24, separated by commas or white space',
);

/** A path of the hub, an http URL, or empty. */
export const pathOrUrl = storable(2_000).refine(
  (value) => value === '' || /^\/(?![/\\])[!-~]*$/.test(value) || /^https?:\/\/[!-~]+$/.test(value),
  'is neither a path nor an http URL',
);
