import type { Services, Tx } from '#platform/context.ts';
import type { FirstAttempts } from './first-attempts.ts';
import type { RecordedHook } from './record.ts';

/** A delivery that dispatch is about to insert, with all that sending it needs. */
export interface NewDelivery {
  readonly id: string;
  readonly webhook_id: number;
  /** Changes with every edit of the hook. */
  readonly version: string;
  readonly recent_failures: number;
  readonly trigger: string;
  readonly chain_id: string;
  /** Shared by the deliveries of an event. */
  readonly body: Buffer;
}

/**
 * The delivery engine of this process, as dispatch sees it. It sends as many new deliveries as it has room for while
 * dispatch inserts them. They need not be found, claimed and read again.
 */
export interface Courier {
  /** Returns how many more deliveries the engine would take, of all hooks. */
  roomInTotal(): number;
  /** Returns how many more deliveries of the hook the engine would send at once. */
  roomOf(webhookId: number): number;
  /** Begins to send deliveries. The caller inserts them, and tells whether that was committed. */
  send(deliveries: readonly NewDelivery[]): Promise<FirstAttempts>;
  /** Emits the events about attempts that the transaction has recorded. */
  announce(tx: Tx, hooks: readonly RecordedHook[]): void;
}

const couriers = new WeakMap<Services, Courier>();

export const startCourier = (services: Services, courier: Courier): (() => void) => {
  couriers.set(services, courier);
  return () => couriers.delete(services);
};

/** Returns null if this process runs no delivery engine. */
export const findCourier = (services: Services): Courier | null => couriers.get(services) ?? null;
