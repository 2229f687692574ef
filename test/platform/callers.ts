import { forRequest, nameCaller } from '#platform/caller/caller.ts';

/** Does the work as a caller without a credential at the address. */
export const as = <T>(ip: string, work: () => T): T =>
  forRequest(() => {
    nameCaller({ userId: null, isSystem: false }, { ip, userAgent: null });
    return work();
  });

/** Resolves once everything that could start has started. */
export const settled = () => new Promise((resolve) => setImmediate(resolve));
