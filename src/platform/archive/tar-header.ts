/**
 * Returns the ustar header of a plain file. Adds a pax record for values beyond ustar: long or non-ASCII names, and
 * sizes of 8 GiB and more.
 */
export const tarHeader = (name: string, size: number): Buffer => {
  const records: string[] = [];
  if (name.length > 100 || !/^[\x20-\x7e]*$/.test(name)) records.push(paxRecord('path', name));
  if (size > MAX_OCTAL_SIZE) records.push(paxRecord('size', String(size)));
  const header = block(name, Math.min(size, MAX_OCTAL_SIZE), '0');
  if (records.length === 0) return header;
  const pax = Buffer.from(records.join(''));
  return Buffer.concat([block('PaxHeader', pax.length, 'x'), pax, tarPadding(pax.length), header]);
};

/** Returns the zeros that fill the last 512-byte block of a file. */
export const tarPadding = (size: number): Buffer => ZEROS.subarray(0, (512 - (size % 512)) % 512);

/** Returns the two empty blocks that end an archive. */
export const tarEnd = (): Buffer => ZEROS;

const block = (name: string, size: number, type: string): Buffer => {
  const header = Buffer.alloc(512);
  header.write(name.replace(/[^\x20-\x7e]/g, '_').slice(0, 100), 0, 'latin1');
  header.write('0000644\0', 100, 'latin1');
  header.write('0000000\0', 108, 'latin1');
  header.write('0000000\0', 116, 'latin1');
  header.write(`${octal(size, 11)}\0`, 124, 'latin1');
  header.write(`${octal(0, 11)}\0`, 136, 'latin1');
  header.write('        ', 148, 'latin1');
  header.write(type, 156, 'latin1');
  header.write('ustar\x0000', 257, 'latin1');
  let sum = 0;
  for (const byte of header) sum += byte;
  header.write(`${octal(sum, 6)}\0 `, 148, 'latin1');
  return header;
};

const octal = (value: number, digits: number) => value.toString(8).padStart(digits, '0');

/** A record starts with its own length, which includes its digits. */
const paxRecord = (key: string, value: string): string => {
  const rest = ` ${key}=${value}\n`;
  const restBytes = Buffer.byteLength(rest);
  let length = restBytes + 1;
  while (String(length).length + restBytes !== length) length++;
  return length + rest;
};

const ZEROS = Buffer.alloc(1024);
const MAX_OCTAL_SIZE = 8 ** 11 - 1;
