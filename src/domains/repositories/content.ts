import { badParameters } from '#platform/errors.ts';

export const CONTENT_ENCODINGS = ['text', 'base64'] as const;
type ContentEncoding = (typeof CONTENT_ENCODINGS)[number];

const BASE64 = /^[A-Za-z0-9+/]*={0,2}$/;

/** Decodes file content. @throws DomainError `parameters` with the parameter's name if it is not valid base64 */
export const decodeContent = (content: string, encoding: ContentEncoding, parameter: string): Buffer => {
  if (encoding === 'text') return Buffer.from(content);
  // Tools break lines every 60 or 76 characters.
  const plain = content.replaceAll(/\s+/g, '');
  const digits = plain.replace(/=+$/, '').length;
  const padding = plain.length - digits;
  const isWhole = padding === 0 ? digits % 4 !== 1 : plain.length % 4 === 0;
  if (!BASE64.test(plain) || !isWhole) throw badParameters(`${parameter} is not valid base64`);
  return Buffer.from(plain, 'base64');
};
