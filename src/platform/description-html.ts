const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/** Returns the description as safe HTML: its escaped text in paragraphs. Markdown stays as written (docs/fields.md). */
export const descriptionHtml = (description: string | null): string => {
  if (!description?.trim()) return '';
  return description
    .trim()
    .split(/\r?\n(?:[ \t]*\r?\n)+/)
    .map((paragraph) => `<p>${escaped(paragraph).replace(/\r?\n/g, '<br>')}</p>`)
    .join('');
};

const escaped = (text: string): string => text.replace(/[&<>"']/g, (each) => ESCAPES[each] ?? each);
