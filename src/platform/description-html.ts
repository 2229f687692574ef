const ESCAPES: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
};

/**
 * The description as HTML that is safe to show: its text, escaped, in paragraphs. Markdown in it stays as it is written
 * (docs/fields.md).
 */
export const descriptionHtml = (description: string | null): string => {
  if (!description?.trim()) return '';
  return description
    .trim()
    .split(/\r?\n(?:[ \t]*\r?\n)+/)
    .map((paragraph) => `<p>${escaped(paragraph).replace(/\r?\n/g, '<br>')}</p>`)
    .join('');
};

const escaped = (text: string): string => text.replace(/[&<>"']/g, (each) => ESCAPES[each] ?? each);
