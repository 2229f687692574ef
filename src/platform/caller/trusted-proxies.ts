import type { IncomingMessage } from 'node:http';
import { BlockList, isIP } from 'node:net';

/** Returns true if the address belongs to a proxy whose `X-Forwarded-For` is trusted. */
export type Trust = (address: string) => boolean;

/** Returns true for an address or a range such as `10.0.0.0/8`. */
export const isAddressRange = (text: string): boolean => {
  const [address = '', prefix, ...rest] = text.split('/');
  const kind = isIP(address);
  if (kind === 0 || rest.length > 0) return false;
  return prefix === undefined || (/^\d{1,3}$/.test(prefix) && Number(prefix) <= (kind === 4 ? 32 : 128));
};

/**
 * Parses addresses and ranges that are separated by commas or white space. Returns null if one is invalid. All accepted
 * ones are valid for `BlockList` of node:net.
 */
export const parseAddressRanges = (text: string): readonly string[] | null => {
  const ranges = text.split(/[\s,]+/).filter((range) => range !== '');
  return ranges.every(isAddressRange) ? ranges : null;
};

/** Trusts the proxies in these addresses and ranges. Trusts none if the list is empty. */
export const trustOf = (ranges: readonly string[]): Trust => {
  const list = new BlockList();
  for (const range of ranges) {
    const [address = '', prefix] = range.split('/');
    const kind = isIP(address) === 6 ? 'ipv6' : 'ipv4';
    if (prefix === undefined) list.addAddress(address, kind);
    else list.addSubnet(address, Number(prefix), kind);
  }
  return (address) => {
    const kind = isIP(address);
    return kind !== 0 && list.check(address, kind === 6 ? 'ipv6' : 'ipv4');
  };
};

/** Returns the address of the caller: the last address in the proxy chain that is not a trusted proxy. */
export const callerAddress = ({ socket, headers }: IncomingMessage, trusted: Trust): string => {
  const forwarded = [headers['x-forwarded-for']].flat().join(',').split(',');
  let address = socket.remoteAddress ?? '';
  for (const hop of forwarded.reverse()) {
    if (!trusted(address) || isIP(hop.trim()) === 0) break;
    address = hop.trim();
  }
  return address;
};
