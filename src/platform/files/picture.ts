import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';

/** The accepted picture types by file extension. SVG is excluded, because it can contain a script. */
const TYPES = { png: 'image/png', jpg: 'image/jpeg', gif: 'image/gif', webp: 'image/webp' } as const;

/** A larger picture would take gigabytes of memory on the reader's machine, no matter how small the file is. */
const MAX_SIDE = 4_096;

/** An uploaded file. */
export interface SentFile {
  readonly size: number;
  open(): Promise<Readable>;
}

export interface Picture {
  readonly bytes: Buffer;
  readonly extension: keyof typeof TYPES;
}

/**
 * Reads an uploaded picture. Returns the picture, or a problem that completes a sentence after the file's name. The
 * type comes from the first bytes, not from the file name or the declared type.
 */
export const readPicture = async (
  file: SentFile,
  maxBytes: number,
): Promise<Picture | { readonly problem: string }> => {
  if (file.size > maxBytes) return { problem: tooBig(maxBytes) };
  // Loaded when the first picture comes.
  const [{ fileTypeFromBuffer }, { imageSize }] = await Promise.all([import('file-type'), import('image-size')]);
  const bytes = await buffer(await file.open());
  const found = await fileTypeFromBuffer(bytes).catch(() => undefined);
  // An animated PNG counts as PNG.
  const extension = EXTENSIONS.find((each) => each === (found?.ext === 'apng' ? 'png' : found?.ext));
  if (!extension) return { problem: 'is not a PNG, JPEG, GIF or WebP picture' };
  const size = sizeOf(bytes, imageSize);
  if (!size) return { problem: 'is a damaged picture' };
  const { width, height } = size;
  if (width > MAX_SIDE || height > MAX_SIDE) {
    return { problem: `has too many pixels (at most ${MAX_SIDE} x ${MAX_SIDE})` };
  }
  return { bytes, extension };
};

export const tooBig = (maxBytes: number): string => `is too big (should be at most ${Math.floor(maxBytes / 1024)} KiB)`;

/** Returns the media type of a stored picture by the extension of its name, or null if it is not a picture. */
export const pictureType = (name: string): string | null => {
  const ending = name.slice(name.lastIndexOf('.') + 1);
  const extension = EXTENSIONS.find((each) => each === ending);
  return extension ? TYPES[extension] : null;
};

const EXTENSIONS = ['png', 'jpg', 'gif', 'webp'] as const satisfies readonly (keyof typeof TYPES)[];

interface Size {
  readonly width: number;
  readonly height: number;
}

const sizeOf = (bytes: Buffer, imageSize: (bytes: Buffer) => Size): Size | null => {
  try {
    const { width, height } = imageSize(bytes);
    return width > 0 && height > 0 ? { width, height } : null;
  } catch {
    // The file is truncated, or its dimensions are invalid.
    return null;
  }
};
