import ipaddr from 'ipaddr.js';

/** What stands for one caller where something is counted by address: the address; of IPv6 the /64 that one customer has at least. */
export const networkOf = (ip: string): string => {
  if (!ipaddr.isValid(ip)) return ip;
  const address = ipaddr.process(ip);
  return address instanceof ipaddr.IPv6
    ? address.parts
        .slice(0, 4)
        .map((part) => part.toString(16))
        .join(':')
    : address.toString();
};
