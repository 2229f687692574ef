import { parseCommit } from './commit-object.ts';
import type { TagObject } from './types.ts';

const SIGNATURE = /^-----BEGIN (?:PGP|SSH|SIGNED) (?:SIGNATURE|MESSAGE)-----$/m;

/** Reads a raw tag object. Its signature is no part of the message. */
export const parseTag = (id: string, raw: Buffer): TagObject => {
  const head = raw.toString('utf8', 0, Math.max(0, raw.indexOf('\n\n')));
  const tagger = /^tagger .*$/m.exec(head)?.[0].slice('tagger '.length);
  // The rest is as in a commit: a head with a signature line, an empty line, a message.
  const { message, committed_date } = parseCommit(
    id,
    Buffer.concat([Buffer.from(`committer ${tagger ?? ''}\n\n`), raw.subarray(raw.indexOf('\n\n') + 2)]),
  );
  const signed = SIGNATURE.exec(message);
  return {
    id,
    message: (signed ? message.slice(0, signed.index) : message).replace(/\n+$/, ''),
    tagged_date: tagger === undefined ? null : committed_date,
    is_signed: signed !== null,
  };
};
