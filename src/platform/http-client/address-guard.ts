import { isIP } from 'node:net';
import ipaddr from 'ipaddr.js';
import { OutboundError } from './outbound-error.ts';

/**
 * The addresses that outgoing requests may reach (spec: `allow_local_requests_*`, `outbound_local_requests_whitelist`).
 */
export interface AddressPolicy {
  /** True if all users may reach loopback and private ranges. */
  readonly allowLocal: boolean;
  /**
   * Exceptions while `allowLocal` is false: host names, addresses and CIDR ranges. All but ranges may have a `:port`.
   */
  readonly allowlist: readonly string[];
}

/** The target of a connection. Allowlist entries may name the host and the port. */
export interface Destination {
  readonly host: string;
  readonly port: number;
}

export type AddressVerdict =
  | 'allowed'
  | 'loopback'
  | 'private'
  | 'link_local'
  | 'metadata'
  | 'unspecified'
  | 'multicast'
  | 'reserved'
  | 'invalid';

export interface OutboundUrl {
  /** The URL without user name, password and fragment. */
  readonly url: URL;
  /** `Basic ...` if the URL contained credentials, else null. */
  readonly authorization: string | null;
}

/**
 * Decides whether a connection to this address may be opened. Loopback, private and carrier NAT addresses depend on the
 * policy. Every other address that is not public unicast is always refused, whatever the allowlist contains.
 */
export const checkAddress = (address: string, policy: AddressPolicy, destination?: Destination): AddressVerdict => {
  if (!ipaddr.isValid(address)) return 'invalid';
  const ip = ipaddr.parse(address);
  const verdict = classify(ip);
  if (verdict !== 'loopback' && verdict !== 'private') return verdict;
  if (policy.allowLocal || isListed(ip, policy, destination)) return 'allowed';
  return verdict;
};

/**
 * Parses a URL from user input. WHATWG parsing converts decimal, octal, hexadecimal and short forms of addresses to
 * dotted ones, so the check sees the address that would be connected to. Host names are checked when they are resolved.
 *
 * @throws OutboundError `blocked`
 */
export const parseOutboundUrl = (text: string, policy: AddressPolicy): OutboundUrl => {
  if (text.length > MAX_URL_LENGTH) throw new OutboundError('blocked', 'URL is too long');
  const url = URL.parse(text);
  if (!url) throw new OutboundError('blocked', 'URL is not valid');
  if (url.protocol !== 'http:' && url.protocol !== 'https:') {
    throw new OutboundError('blocked', 'URL is blocked: only http and https are allowed');
  }
  if (url.hostname === '') throw new OutboundError('blocked', 'URL is not valid');
  const authorization = takeCredentials(url);
  url.hash = '';
  checkUrl(url, policy);
  return { url, authorization };
};

/** Checks a URL without credentials in the same way. */
const checkUrl = (url: URL, policy: AddressPolicy): void => {
  const destination = destinationOf(url);
  const byName = isHostListed(policy, destination);
  if (REFUSED_PORTS.has(destination.port) && !isPortListed(policy, destination)) {
    throw new OutboundError('blocked', `URL is blocked: port ${destination.port} is not allowed`);
  }
  if (isIP(destination.host) !== 0) {
    assertAllowed(checkAddress(destination.host, policy, destination));
  } else if (LOCAL_NAME.test(destination.host) && !policy.allowLocal && !byName) {
    throw blocked('loopback');
  }
};

/** Returns the host without brackets and trailing dot, and the effective port. */
export const destinationOf = (url: URL): Destination => ({
  host: bareHost(url.hostname),
  port: url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port),
});

export const assertAllowed = (verdict: AddressVerdict): void => {
  if (verdict !== 'allowed') throw blocked(verdict);
};

const blocked = (verdict: Exclude<AddressVerdict, 'allowed'>) =>
  new OutboundError(
    'blocked',
    verdict === 'loopback' || verdict === 'private'
      ? 'URL is blocked: requests to the local network are not allowed'
      : 'URL is blocked: its address is never allowed',
  );

type Ip = ReturnType<typeof ipaddr.parse>;

const classify = (ip: Ip): AddressVerdict => {
  if (METADATA.has(ip.toString())) return 'metadata';
  if (ip instanceof ipaddr.IPv4) return ofRange(ip.range());
  if (ip.zoneId) return 'link_local';
  if (ip.isIPv4MappedAddress()) return classify(ip.toIPv4Address());
  if (ip.match(NAT64)) {
    // The translator connects to the IPv4 address in the last four bytes, so that address must be public.
    return classify(new ipaddr.IPv4(ip.toByteArray().slice(12))) === 'allowed' ? 'allowed' : 'reserved';
  }
  const verdict = ofRange(ip.range());
  // ipaddr.js calls everything unlisted "unicast", but only 2000::/3 is allocated.
  return verdict === 'allowed' && !ip.match(GLOBAL_UNICAST) ? 'reserved' : verdict;
};

const ofRange = (range: string): AddressVerdict => RANGES[range] ?? 'reserved';

const RANGES: { readonly [range: string]: AddressVerdict } = {
  unicast: 'allowed',
  loopback: 'loopback',
  private: 'private',
  uniqueLocal: 'private',
  carrierGradeNat: 'private',
  linkLocal: 'link_local',
  unspecified: 'unspecified',
  multicast: 'multicast',
};

const NAT64 = ipaddr.IPv6.parseCIDR('64:ff9b::/96');
const GLOBAL_UNICAST = ipaddr.IPv6.parseCIDR('2000::/3');

/**
 * Metadata services of cloud providers, which give credentials to any client. Some are outside the link-local range.
 */
const METADATA = new Set(['fd00:ec2::254', 'fd20:ce::254', '100.100.100.200', '168.63.129.16', '169.254.169.254']);

const LOCAL_NAME = /^(?:.+\.)?localhost$/;
const MAX_URL_LENGTH = 2048;

interface Entry {
  readonly host: string;
  readonly port: number | null;
  readonly network: ReturnType<typeof ipaddr.parseCIDR> | null;
}

/** Compiled allowlists. A policy object lives as long as its setting, so each list is compiled once. */
const compiled = new WeakMap<readonly string[], readonly Entry[]>();

const entriesOf = (policy: AddressPolicy): readonly Entry[] => {
  let entries = compiled.get(policy.allowlist);
  if (!entries) {
    entries = policy.allowlist.map((text) => parseEntry(text.trim().toLowerCase())).filter((entry) => entry !== null);
    compiled.set(policy.allowlist, entries);
  }
  return entries;
};

const parseEntry = (text: string): Entry | null => {
  if (text === '') return null;
  if (ipaddr.isValidCIDR(text)) return { host: '', port: null, network: ipaddr.parseCIDR(text) };
  const match = isIP(text) === 0 ? /^(.+):(\d{1,5})$/.exec(text) : null;
  const host = bareHost(match?.[1] ?? text);
  const port = match ? Number(match[2]) : null;
  if (isIP(host) === 0) return { host, port, network: null };
  const ip = ipaddr.parse(host);
  return { host: '', port, network: [ip, ip instanceof ipaddr.IPv4 ? 32 : 128] };
};

const isListed = (ip: Ip, policy: AddressPolicy, destination?: Destination): boolean => {
  if (destination && isHostListed(policy, destination)) return true;
  const plain = ip instanceof ipaddr.IPv6 && ip.isIPv4MappedAddress() ? ip.toIPv4Address() : ip;
  return entriesOf(policy).some(
    ({ network, port }) =>
      network !== null &&
      (port === null || port === destination?.port) &&
      plain.kind() === network[0].kind() &&
      plain.match(network),
  );
};

const isHostListed = (policy: AddressPolicy, { host, port }: Destination): boolean =>
  entriesOf(policy).some(
    (entry) => entry.network === null && entry.host === host && (entry.port === null || entry.port === port),
  );

const isPortListed = (policy: AddressPolicy, { host, port }: Destination): boolean =>
  entriesOf(policy).some(
    (entry) =>
      entry.port === port &&
      (entry.network === null
        ? entry.host === host
        : isIP(host) !== 0 && ipaddr.parse(host).toString() === entry.network[0].toString()),
  );

const bareHost = (host: string): string => host.replace(/^\[(.*)\]$/, '$1').replace(/\.$/, '');

const takeCredentials = (url: URL): string | null => {
  if (url.username === '' && url.password === '') return null;
  let pair: string;
  try {
    pair = `${decodeURIComponent(url.username)}:${decodeURIComponent(url.password)}`;
  } catch {
    throw new OutboundError('blocked', 'URL is not valid');
  }
  url.username = '';
  url.password = '';
  return `Basic ${Buffer.from(pair).toString('base64')}`;
};

/** Ports of protocols other than HTTP: the browsers' list (WHATWG fetch) and the usual databases and caches. */
const REFUSED_PORTS = new Set([
  0, 1, 7, 9, 11, 13, 15, 17, 19, 20, 21, 22, 23, 25, 37, 42, 43, 53, 69, 77, 79, 87, 95, 101, 102, 103, 104, 109, 110,
  111, 113, 115, 117, 119, 123, 135, 137, 138, 139, 143, 161, 179, 389, 427, 445, 465, 512, 513, 514, 515, 526, 530,
  531, 532, 540, 548, 554, 556, 563, 587, 601, 636, 989, 990, 993, 995, 1719, 1720, 1723, 2049, 2375, 3306, 3389, 3659,
  4045, 4190, 5060, 5061, 5432, 6000, 6379, 6566, 6665, 6666, 6667, 6668, 6669, 6679, 6697, 10080, 11211, 27017,
]);
