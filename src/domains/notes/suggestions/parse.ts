/** A suggestion in a comment: new text for the commented line and for lines around it. */
export interface SuggestedChange {
  readonly lines_above: number;
  readonly lines_below: number;
  /** Ends with a line break, unless it is empty and removes the lines. */
  readonly to_content: string;
}

/** More lines around the commented one are not replaced, as upstream limits it. */
const MAX_CONTEXT = 100;
/** Further suggestions of a comment are shown as text and cannot be applied. */
const MAX_SUGGESTIONS = 100;

const OPENING = /^ {0,3}(`{3,}|~{3,})(.*)$/;
const INFO = /^suggestion(?::-(\d{1,9})\+(\d{1,9}))?\s*$/;

/** Reads the blocks fenced with ` ```suggestion:-0+2 ` (reference: merge-requests §7). Takes linear time. */
export const parseSuggestions = (body: string): SuggestedChange[] => {
  if (!body.includes('suggestion')) return [];
  const found: SuggestedChange[] = [];
  let fence = '';
  let change: { above: number; below: number; lines: string[] } | null = null;
  const close = () => {
    if (change) {
      const { above, below, lines } = change;
      const to_content = lines.map((line) => `${line}\n`).join('');
      found.push({ lines_above: above, lines_below: below, to_content });
    }
    fence = '';
    change = null;
  };
  for (const line of body.split(/\r?\n/)) {
    const [, marks = '', rest = ''] = OPENING.exec(line) ?? [];
    if (fence === '') {
      if (marks === '' || (marks.startsWith('`') && rest.includes('`'))) continue;
      fence = marks;
      const [isSuggestion, above = '0', below = '0'] = INFO.exec(rest.trim()) ?? [];
      if (isSuggestion === undefined) continue;
      const lines: string[] = [];
      change = { above: Math.min(Number(above), MAX_CONTEXT), below: Math.min(Number(below), MAX_CONTEXT), lines };
    } else if (marks.startsWith(fence) && rest.trim() === '') {
      close();
      if (found.length === MAX_SUGGESTIONS) return found;
    } else change?.lines.push(line);
  }
  close();
  return found;
};
