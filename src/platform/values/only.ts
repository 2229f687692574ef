/** Returns the only item of a list, such as the record that was made of one row. @throws TypeError if there is another number */
export const only = <T>(items: readonly T[]): T => {
  const [item] = items;
  if (item === undefined || items.length > 1) throw new TypeError(`expected one item, but found ${items.length}`);
  return item;
};
