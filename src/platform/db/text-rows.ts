import { type RawBuilder, sql } from 'kysely';

/** A column of a row that is read as JSON text. */
export interface TextColumn {
  /** The key in the JSON object. Must be a name of the program, because it becomes part of the statement. */
  readonly name: string;
  readonly column: string;
  /**
   * `string`: a text. `quoted`: a number, or a text without characters that JSON escapes. `raw`: a number or boolean.
   * `slot`: the id of a value that is filled in later, between two `SLOT` characters as `name:id`; null stays null.
   */
  readonly as: 'string' | 'quoted' | 'raw' | 'slot';
}

/** Marks slots. JSON escapes this character in strings, so that no value contains it. */
export const SLOT = '\u0001';

/** SQL: the text of the row `alias` as a JSON object. Columns other than strings and slots must not be null. */
export const rowText = (alias: string, columns: readonly TextColumn[]): RawBuilder<string> => {
  const pieces: RawBuilder<unknown>[] = [];
  // Neighbouring constants become one: each concatenation copies the text so far.
  let constant = '{';
  for (const [i, { name, column, as }] of columns.entries()) {
    const value = sql.ref(`${alias}.${column}`);
    const quote = as === 'quoted' ? '"' : '';
    pieces.push(sql.lit(`${constant}${i === 0 ? '' : ','}"${name}":${quote}`), valueText(value, as, name));
    constant = quote;
  }
  return sql<string>`${sql.join([...pieces, sql.lit(`${constant}}`)], sql` || `)}`;
};

const valueText = (value: RawBuilder<unknown>, as: TextColumn['as'], name: string): RawBuilder<unknown> => {
  switch (as) {
    case 'string':
      return sql`coalesce(to_json(${value})::text, 'null')`;
    case 'quoted':
      return value;
    case 'raw':
      return sql`to_json(${value})::text`;
    case 'slot':
      return sql`coalesce(${sql.lit(`${SLOT}${name}:`)} || ${value} || ${sql.lit(SLOT)}, 'null')`;
  }
};
