import type { StateCore } from 'markdown-it';
import type { Slot } from '../model.ts';

/** The state that the rules of one text share. It is the `env` of the library. */
export interface Rendering {
  readonly base: string;
  readonly slots: Slot[];
  /** The ids of headings so far, with the number of headings that have each. */
  readonly headings: Map<string, number>;
  [key: string | symbol]: unknown;
}

/** The library types its `env` as a bag of anything. Each text is rendered with a `Rendering`. */
export const renderingOf = (state: StateCore): Rendering => {
  const { base, slots, headings } = state.env;
  if (typeof base !== 'string' || !isSlots(slots) || !(headings instanceof Map)) throw new Error('not a rendering');
  return { base, slots, headings };
};

const isSlots = (value: unknown): value is Slot[] => Array.isArray(value);

/** The separator of slots in rendered HTML. The library replaces it in texts, so that no text can contain it. */
export const MARK = '\0';
