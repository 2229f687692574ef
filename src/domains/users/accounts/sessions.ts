import type { Tx } from '#platform/context.ts';
import { definePort } from '#platform/port.ts';

/** Ends all sessions of a user whose account is closed. Sign-in implements it. */
export const endSessionsOf = definePort<Tx, [userId: number], Promise<number>>('users.end_sessions_of');

/** Ends the sessions of a user except the one that this request uses, if any. Sign-in implements it. */
export const endOtherSessionsOf = definePort<Tx, [userId: number], Promise<number>>('users.end_other_sessions_of');
