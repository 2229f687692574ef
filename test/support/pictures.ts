import { crc32, deflateSync } from 'node:zlib';

interface Size {
  readonly width: number;
  readonly height: number;
}

const chunk = (type: string, data: Buffer): Buffer => {
  const body = Buffer.concat([Buffer.from(type, 'latin1'), data]);
  const out = Buffer.alloc(8 + body.length);
  out.writeUInt32BE(data.length, 0);
  body.copy(out, 4);
  out.writeUInt32BE(crc32(body), 4 + body.length);
  return out;
};

/** Returns a grey PNG with `padding` more bytes in a text chunk. Only small pictures have all their pixels. */
export const png = ({ width, height }: Size = { width: 8, height: 8 }, padding = 0): Buffer => {
  const header = Buffer.alloc(13);
  header.writeUInt32BE(width, 0);
  header.writeUInt32BE(height, 4);
  header[8] = 8;
  const rows = width * height < 10_000 ? Buffer.alloc((width + 1) * height, 128) : Buffer.alloc(1);
  return Buffer.concat([
    Buffer.from('89504e470d0a1a0a', 'hex'),
    chunk('IHDR', header),
    ...(padding > 0 ? [chunk('tEXt', Buffer.concat([Buffer.from('a\0'), Buffer.alloc(padding, 0x61)]))] : []),
    chunk('IDAT', deflateSync(rows)),
    chunk('IEND', Buffer.alloc(0)),
  ]);
};

/** Returns a GIF header, which has its type and size. */
export const gif = ({ width, height }: Size): Buffer => {
  const header = Buffer.alloc(14);
  header.write('GIF89a', 'latin1');
  header.writeUInt16LE(width, 6);
  header.writeUInt16LE(height, 8);
  header[13] = 0x3b;
  return header;
};

export const jpeg = ({ width, height }: Size): Buffer => {
  const frame = Buffer.from('ffc0001108000000000301110002110103110100ffd9', 'hex');
  frame.writeUInt16BE(height, 5);
  frame.writeUInt16BE(width, 7);
  return Buffer.concat([Buffer.from('ffd8ffe000104a46494600010100000100010000', 'hex'), frame]);
};

export const webp = ({ width, height }: Size): Buffer => {
  const file = Buffer.alloc(34);
  file.write('RIFF', 0, 'latin1');
  file.writeUInt32LE(26, 4);
  file.write('WEBPVP8L', 8, 'latin1');
  file.writeUInt32LE(13, 16);
  file[20] = 0x2f;
  file.writeUInt32LE((width - 1) | ((height - 1) << 14), 21);
  return file;
};
