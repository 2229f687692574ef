/** Returns the value of a text that is JSON, and any other text as it is: `3` is a number, `full` needs no quotes. */
export const jsonOrText = (text: string): unknown => {
  try {
    return JSON.parse(text);
  } catch {
    // A text need not be quoted.
    return text;
  }
};
