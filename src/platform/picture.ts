import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { fileTypeFromBuffer } from 'file-type';
import { imageSize } from 'image-size';

/** The kinds of picture that are taken, by the ending of their files. No SVG: it can hold a script. */
const TYPES = { png: 'image/png', jpg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp' } as const;

/** More would take gigabytes of whoever looks at it, however small the file. */
const MAX_SIDE = 4_096;

/** A file that somebody sent. */
export interface SentFile {
  readonly size: number;
  open(): Promise<Readable>;
}

export interface Picture {
  readonly bytes: Buffer;
  readonly extension: keyof typeof TYPES;
}

/**
 * The file as a picture, or what is wrong with it, to follow its name in a sentence. What it is its first bytes say, not its
 * name or the type it was sent as.
 */
export const readPicture = async (
  file: SentFile,
  maxBytes: number,
): Promise<Picture | { readonly problem: string }> => {
  if (file.size > maxBytes) return { problem: tooBig(maxBytes) };
  const bytes = await buffer(await file.open());
  const found = await fileTypeFromBuffer(bytes).catch(() => undefined);
  // An animated PNG is one.
  const extension = EXTENSIONS.find((each) => each === (found?.ext === 'apng' ? 'png' : found?.ext));
  if (!extension) return { problem: 'is not a PNG, JPEG, GIF or WebP picture' };
  const size = sizeOf(bytes);
  if (!size) return { problem: 'is a damaged picture' };
  const { width, height } = size;
  if (width > MAX_SIDE || height > MAX_SIDE) {
    return { problem: `has too many pixels (at most ${MAX_SIDE} x ${MAX_SIDE})` };
  }
  return { bytes, extension };
};

export const tooBig = (maxBytes: number): string => `is too big (should be at most ${Math.floor(maxBytes / 1024)} KiB)`;

/** The media type of a stored picture, by the ending of its name; null for what is none. */
export const pictureType = (name: string): string | null => {
  const ending = name.slice(name.lastIndexOf('.') + 1);
  const extension = EXTENSIONS.find((each) => each === ending);
  return extension ? TYPES[extension] : null;
};

const EXTENSIONS = ['png', 'jpg', 'gif', 'webp'] as const satisfies readonly (keyof typeof TYPES)[];

const sizeOf = (bytes: Buffer): { readonly width: number; readonly height: number } | null => {
  try {
    const { width, height } = imageSize(bytes);
    return width > 0 && height > 0 ? { width, height } : null;
  } catch {
    // It ends too early, or its sizes are none.
    return null;
  }
};
