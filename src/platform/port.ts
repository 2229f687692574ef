import type { Context, Services } from './context.ts';

/**
 * A function that a domain calls but cannot import, because the domain that implements it imports the caller. `connect`
 * sets the implementation for one hub.
 */
export interface Port<C, A extends readonly unknown[], R> {
  (ctx: C, ...args: A): R;
  connect(services: Services, implementation: (ctx: C, ...args: A) => R): void;
}

/** Defines a port. The calling domain defines it, and `app/ports.ts` connects it. Calling it before that throws. */
export const definePort = <C extends Pick<Context, 'services'>, A extends readonly unknown[], R>(
  name: string,
): Port<C, A, R> => {
  const implementations = new WeakMap<Services, (ctx: C, ...args: A) => R>();
  const call = (ctx: C, ...args: A): R => {
    const implementation = implementations.get(ctx.services);
    if (!implementation) throw new Error(`the port ${name} is not connected`);
    return implementation(ctx, ...args);
  };
  return Object.assign(call, {
    connect: (services: Services, implementation: (ctx: C, ...args: A) => R) => {
      implementations.set(services, implementation);
    },
  });
};
