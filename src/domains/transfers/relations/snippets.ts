import { author, type Column, integerOr, moment, Refused, text, title, typesOf } from './columns.ts';
import { NoteWriter, notesOf } from './notes.ts';
import { readTable } from './reading.ts';
import type { Relation } from './relation.ts';

const columns: readonly Column[] = [
  title('title'),
  text('content'),
  text('file_name', { max: 255 }),
  text('description'),
  visibility(),
  author('author_id'),
  moment('created_at'),
  moment('updated_at'),
];

/** The visibility of a snippet. Unknown levels become private. */
function visibility(): Column {
  const column = integerOr('visibility_level', 0);
  return {
    ...column,
    read: (value, people) => {
      const level = column.read(value, people);
      return level === 10 || level === 20 ? level : 0;
    },
  };
}

export const snippets: Relation = {
  name: 'snippets',
  reading: readTable('snippets', columns, [notesOf('snippet_id', 'snippets')]),
  async write(batch, lines) {
    const { maxSnippetBytes: max } = batch.place;
    const read = batch.read(lines, columns).filter(({ line, row }) => {
      const isTooLong = max > 0 && Buffer.byteLength(String(row.content ?? '')) > max;
      if (isTooLong) batch.fail(line, new Refused(`content is too long (maximum is ${max} bytes)`));
      return !isTooLong;
    });
    const ids = await batch.takeIds('snippets', read.length);
    const notes = new NoteWriter(batch);
    for (const [index, { line, row }] of read.entries()) {
      const snippet_id = ids[index] ?? 0;
      Object.assign(row, { id: snippet_id, project_id: batch.place.project_id });
      batch.children(line, line.value, 'notes', (note) =>
        notes.add(line, note, { noteable_type: 'Snippet', snippet_id }),
      );
    }
    await batch.insert(
      'snippets',
      typesOf(columns, { id: 'bigint', project_id: 'bigint' }),
      read.map(({ row }) => row),
    );
    await notes.write();
  },
};
