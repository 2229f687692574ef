/**
 * Returns the text with everything inside code (fenced blocks and code spans) replaced by NUL, except
 * line breaks. Offsets stay the same. Takes linear time.
 */
export const withoutCode = (text: string): string => {
  const parts: string[] = [];
  let fence: string | null = null;
  let paragraph: string[] = [];
  const endParagraph = () => {
    if (paragraph.length > 0) parts.push(withoutCodeSpans(paragraph.join('')));
    paragraph = [];
  };
  for (const line of linesOf(text)) {
    const mark = FENCE.exec(line)?.[1];
    const rest = mark ? line.slice(line.indexOf(mark) + mark.length) : '';
    if (fence !== null) {
      parts.push(blank(line));
      if (mark?.startsWith(fence) && rest.trim() === '') fence = null;
    } else if (mark && !(mark.startsWith('`') && rest.includes('`'))) {
      endParagraph();
      parts.push(blank(line));
      fence = mark;
    } else if (line.trim() === '') {
      endParagraph();
      parts.push(line);
    } else paragraph.push(line);
  }
  endParagraph();
  return parts.join('');
};

const FENCE = /^ {0,3}(?:> ?)*(`{3,}|~{3,})/;
const BACKTICKS = /`+/g;

/** Yields the lines with their line breaks. */
function* linesOf(text: string): Generator<string> {
  for (let start = 0; start < text.length; ) {
    const end = text.indexOf('\n', start);
    yield end === -1 ? text.slice(start) : text.slice(start, end + 1);
    start = end === -1 ? text.length : end + 1;
  }
}

/** A span begins and ends with as many backticks. It cannot cross a blank line. */
const withoutCodeSpans = (paragraph: string): string => {
  const runs = [...paragraph.matchAll(BACKTICKS)].map((found) => ({ start: found.index, length: found[0].length }));
  const following: (number | undefined)[] = [];
  const nextOfLength = new Map<number, number>();
  for (let i = runs.length - 1; i >= 0; i--) {
    const length = runs[i]?.length ?? 0;
    following[i] = nextOfLength.get(length);
    nextOfLength.set(length, i);
  }
  const parts: string[] = [];
  let done = 0;
  for (let i = 0; i < runs.length; i++) {
    const first = runs[i];
    const last = runs[following[i] ?? -1];
    if (!first || !last) continue;
    parts.push(paragraph.slice(done, first.start), blank(paragraph.slice(first.start, last.start + last.length)));
    done = last.start + last.length;
    i = following[i] ?? i;
  }
  parts.push(paragraph.slice(done));
  return parts.join('');
};

const blank = (text: string): string => text.replace(/[^\n]/g, '\0');
