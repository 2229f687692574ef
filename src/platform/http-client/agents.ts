import type { LookupAddress } from 'node:dns';
import { isIP, type LookupFunction } from 'node:net';
import { Agent, buildConnector, type Dispatcher, Pool } from 'undici';
import { type AddressPolicy, assertAllowed, checkAddress, destinationOf } from './address-guard.ts';
import { OutboundError } from './outbound-error.ts';

export type Lookup = (host: string) => Promise<readonly LookupAddress[]>;
export type Connect = (
  options: buildConnector.Options & { readonly addresses: readonly LookupAddress[] },
  callback: buildConnector.Callback,
) => void;

export interface GuardedAgent {
  readonly dispatcher: Dispatcher;
  remoteAddress(origin: string): string | null;
}

export interface Agents {
  get(policy: AddressPolicy, verify: boolean): GuardedAgent;
  close(): Promise<void>;
}

/**
 * Creates one agent for each policy and TLS verification mode, so that a kept-alive connection is only used under the
 * policy that it was checked with.
 */
export const createAgents = (options: {
  readonly lookup: Lookup;
  readonly connect?: Connect;
  readonly connectionsPerOrigin?: number;
}): Agents => {
  const agents = new Map<string, GuardedAgent & { readonly dispatcher: Agent }>();

  const create = (policy: AddressPolicy, verify: boolean) => {
    const remotes = new Map<string, string>();
    const dispatcher = new Agent({
      // Origins come from users. Without a limit, idle pools of every host ever used would pile up.
      maxOrigins: MAX_ORIGINS,
      allowH2: false,
      headersTimeout: 0,
      bodyTimeout: 0,
      connections: options.connectionsPerOrigin ?? MAX_CONNECTIONS,
      factory: (origin, settings) => {
        const url = new URL(origin);
        const remember = (address: string) => {
          if (remotes.size >= MAX_ORIGINS) remotes.clear();
          remotes.set(url.origin, address);
        };
        return new Pool(url, { ...settings, connect: guardedConnector(url, policy, verify, options, remember) });
      },
    });
    return { dispatcher, remoteAddress: (origin: string) => remotes.get(origin) ?? null };
  };

  return {
    get(policy, verify) {
      const key = `${verify}|${policy.allowLocal}|${policy.allowlist.join()}`;
      let agent = agents.get(key);
      if (!agent) {
        // Policies change only when an administrator changes a setting, so the oldest one is no longer in use.
        const [oldest] = agents;
        if (oldest && agents.size >= MAX_AGENTS) {
          agents.delete(oldest[0]);
          void oldest[1].dispatcher.close();
        }
        agent = create(policy, verify);
        agents.set(key, agent);
      }
      return agent;
    },
    async close() {
      const open = [...agents.values()];
      agents.clear();
      await Promise.all(open.map(({ dispatcher }) => dispatcher.close()));
    },
  };
};

/**
 * Resolves the host name, checks every address, and lets the socket connect only to these addresses. The name is not
 * resolved a second time, which prevents DNS rebinding. `net` skips `lookup` for literal addresses, so this also checks
 * those.
 */
const guardedConnector = (
  origin: URL,
  policy: AddressPolicy,
  verify: boolean,
  options: { readonly lookup: Lookup; readonly connect?: Connect },
  remember: (address: string) => void,
): buildConnector.connector => {
  const destination = destinationOf(origin);
  // All connections of this origin go to one host under one policy, so these addresses have always been checked.
  let addresses: readonly LookupAddress[] = [];
  const checkedLookup: LookupFunction = (_host, { all }, callback) => {
    const [first] = addresses;
    if (all) callback(null, [...addresses]);
    else if (first) callback(null, first.address, first.family);
    else callback(new OutboundError('dns', 'The host name could not be resolved'), '', 0);
  };
  const connect =
    options.connect ??
    buildConnector({
      lookup: checkedLookup,
      rejectUnauthorized: verify,
      allowH2: false,
      timeout: CONNECT_TIMEOUT_MS,
      autoSelectFamily: true,
    });

  const resolve = async (): Promise<readonly LookupAddress[]> => {
    const family = isIP(destination.host);
    const found = family === 0 ? await options.lookup(destination.host) : [{ address: destination.host, family }];
    if (found.length === 0) throw new OutboundError('dns', 'The host name could not be resolved');
    for (const { address } of found) assertAllowed(checkAddress(address, policy, destination));
    return found;
  };

  return (target, callback) => {
    resolve().then(
      (found) => {
        addresses = found;
        connect({ ...target, addresses: found }, (...result) => {
          const [error, socket] = result;
          if (error === null && socket.remoteAddress) remember(socket.remoteAddress);
          callback(...result);
        });
      },
      (error: unknown) => callback(error instanceof Error ? error : new Error(String(error)), null),
    );
  };
};

const CONNECT_TIMEOUT_MS = 10_000;
/** As many as concurrent deliveries: with fewer, hanging receivers would block the others on their host. */
const MAX_CONNECTIONS = 1_024;
const MAX_ORIGINS = 10_000;
const MAX_AGENTS = 8;
