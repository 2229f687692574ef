/** Colours and cursor movements, and the marks of sections. */
const ESCAPES = new RegExp(`${String.fromCharCode(27)}\\[[0-?]*[ -/]*[@-~]`, 'g');
const SECTION = /section_(?:start|end):\d+:[^\r\n]*\r/g;

const ENTITIES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Returns the last lines of a log as HTML: text without colours, one line after the other. */
export const htmlOf = (text: string, lines: number): string =>
  text
    .replace(SECTION, '')
    .replace(ESCAPES, '')
    .replace(/\n$/, '')
    .split('\n')
    .slice(-lines)
    // A carriage return overwrites what the line had before.
    .map((line) => line.replace(/\r$/, '').replace(/^.*\r/s, ''))
    .map((line) => line.replace(/[&<>"']/g, (character) => ENTITIES[character] ?? ''))
    .join('<br/>');
