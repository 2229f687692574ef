import type { Services } from '#platform/context.ts';
import type { Claimed } from './claim.ts';

/**
 * The delivery engine of this process, as dispatch sees it. Dispatch inserts as many new deliveries as the engine has
 * room for as claimed, and hands them over after the commit. They need not be found, claimed and read again.
 */
export interface Courier {
  /** Returns how many more deliveries the engine would take, of all hooks. */
  roomInTotal(): number;
  /** Returns how many more deliveries of the hook the engine would send at once. */
  roomOf(webhookId: number): number;
  /** Takes deliveries that this process has claimed. */
  take(claimed: readonly Claimed[]): void;
}

const couriers = new WeakMap<Services, Courier>();

export const startCourier = (services: Services, courier: Courier): (() => void) => {
  couriers.set(services, courier);
  return () => couriers.delete(services);
};

/** Returns null if this process runs no delivery engine. */
export const findCourier = (services: Services): Courier | null => couriers.get(services) ?? null;
