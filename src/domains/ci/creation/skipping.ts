/** `[skip ci]`, `[ci-skip]` and the like, in the message of the head commit (reference: ci §2). */
const SKIP = /\[(?:ci[ _-]skip|skip[ _-]ci)\]/i;

export const asksToSkip = (message: string): boolean => SKIP.test(message);
