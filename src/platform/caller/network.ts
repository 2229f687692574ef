import { isIPv4 } from 'node:net';
import ipaddr from 'ipaddr.js';

/**
 * Returns the network that counts as one caller when limits count by address: the address itself, or for IPv6 its /64,
 * which is the least that one customer gets.
 */
export const networkOf = (ip: string): string => {
  // Most callers, and much cheaper than parsing.
  if (isIPv4(ip) || !ipaddr.isValid(ip)) return ip;
  const address = ipaddr.process(ip);
  return address instanceof ipaddr.IPv6
    ? address.parts
        .slice(0, 4)
        .map((part) => part.toString(16))
        .join(':')
    : address.toString();
};
