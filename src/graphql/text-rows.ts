import type { GraphQLResolveInfo } from 'graphql';
import type { Context } from '#platform/context.ts';
import { SLOT, type TextColumn } from '#platform/db/text-rows.ts';
import { Info } from './info.ts';
import type { Loader } from './loaders.ts';
import type { FieldPlan, SelectionPlan } from './plan.ts';

// Rows of plain columns pass from the database to the response as JSON text: they are neither parsed nor turned into
// objects (decision 58).

export { SLOT };

/** How each plain field of a type is read as text. Rows with other fields are read as objects. */
export interface TextFields {
  readonly [field: string]: Omit<TextColumn, 'name'> & {
    /** Loads the object of a field whose column is `slot`. Its fields must not need more than that object. */
    readonly load?: Loader<number, unknown>;
  };
}

/** The selection of a connection whose rows can pass as text. */
interface TextShape {
  /** The response key of `nodes`. */
  readonly key: string;
  readonly columns: readonly TextColumn[];
  readonly slots: ReadonlyMap<string, FieldPlan>;
}

/** The page of a connection as text. `find` returns the object of a slot. */
export class TextPage {
  /** The rows, separated by commas. Between two `SLOT` characters is the name of a field, a colon and an id. */
  readonly text: string;
  readonly shape: TextShape;
  readonly find: (field: string, id: number) => unknown;

  constructor(text: string, shape: TextShape, find: TextPage['find']) {
    this.text = text;
    this.shape = shape;
    this.find = find;
  }

  // A connection has these too, but the query selects none of them.
  get count(): never {
    return unread();
  }
  get edges(): never {
    return unread();
  }
  get pageInfo(): never {
    return unread();
  }
}

const unread = (): never => {
  throw new Error('A page of text has no rows');
};

/** Loads the objects of the slots in all `texts`. */
export const loadSlots = async (
  ctx: Context,
  fields: TextFields,
  { slots }: TextShape,
  texts: Iterable<string>,
): Promise<void> => {
  if (slots.size === 0) return;
  const ids = new Map<string, Set<number>>();
  for (const text of texts) {
    const parts = text.split(SLOT);
    for (let i = 1; i < parts.length; i += 2) {
      const [name = '', id] = parts[i]?.split(':') ?? [];
      const group = ids.get(name);
      if (group) group.add(Number(id));
      else ids.set(name, new Set([Number(id)]));
    }
  }
  await Promise.all([...ids].map(([name, group]) => fields[name]?.load?.ahead(ctx, group)));
};

const shapes = new WeakMap<FieldPlan, TextShape | null>();

/** Returns the shape of a connection field whose selection consists of plain fields. Null if there are others. */
export const textShapeOf = (info: GraphQLResolveInfo, fields: TextFields): TextShape | null => {
  // graphql's own executor does not know text.
  if (!(info instanceof Info)) return null;
  let shape = shapes.get(info.plan);
  if (shape === undefined) {
    shape = compileShape(info.plan, fields);
    shapes.set(info.plan, shape);
  }
  return shape;
};

const compileShape = (connection: FieldPlan, fields: TextFields): TextShape | null => {
  const [nodes, ...others] = connection.belowOnly()?.fields ?? [];
  const rows = others.length === 0 && nodes?.name === 'nodes' ? nodes.belowOnly() : null;
  if (!nodes || !rows) return null;
  const columns: TextColumn[] = [];
  const slots = new Map<string, FieldPlan>();
  for (const field of rows.fields) {
    const declared = fields[field.name];
    // Statements are prepared by their text, which must not contain names that clients choose.
    if (!declared || field.key !== field.name || (field.definition?.args.length ?? 1) > 0) return null;
    if (declared.as === 'slot') {
      if (!declared.load || !isPlain(field.belowOnly())) return null;
      slots.set(field.name, field);
    }
    columns.push({ name: field.name, column: declared.column, as: declared.as });
  }
  return columns.length === 0 ? null : { key: nodes.key, columns, slots };
};

/** Whether all fields are values of the object itself. */
const isPlain = (selection: SelectionPlan | null): boolean =>
  selection?.fields.every((field) => field.definition === undefined || (field.leaf !== null && !field.takesInfo)) ??
  false;

/** Part of a result that is JSON text already. Behaves as the value when the result is turned into JSON. */
export class JsonText {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }

  toJSON(): unknown {
    return JSON.parse(this.text);
  }
}

/** Results that contain JsonText. */
const withText = new WeakSet<object>();
export const markText = (data: object): void => void withText.add(data);

/** Turns a result into JSON. */
export const toJsonText = (result: { readonly data?: object | null | undefined }): string =>
  result.data && withText.has(result.data) ? write(result) : JSON.stringify(result);

const write = (value: unknown): string => {
  if (value instanceof JsonText) return value.text;
  if (Array.isArray(value)) return `[${value.map(write).join(',')}]`;
  // Only results of the executor come here: they are plain objects, without functions or undefined values.
  if (typeof value !== 'object' || value === null || 'toJSON' in value) return JSON.stringify(value);
  let text = '';
  for (const key in value) text += `${text === '' ? '' : ','}${JSON.stringify(key)}:${write(Reflect.get(value, key))}`;
  return `{${text}}`;
};
