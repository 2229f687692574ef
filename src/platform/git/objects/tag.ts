import type { TagObject } from '../objects.ts';
import { parseCommit } from './commit.ts';

const SIGNATURE = /^-----BEGIN (?:PGP|SSH|SIGNED) (?:SIGNATURE|MESSAGE)-----$/m;

/** Parses a raw tag object. The message excludes the signature. */
export const parseTag = (id: string, raw: Buffer): TagObject => {
  const head = raw.toString('utf8', 0, Math.max(0, raw.indexOf('\n\n')));
  const tagger = /^tagger .*$/m.exec(head)?.[0].slice('tagger '.length);
  // The rest has the format of a commit: a header with a signature line, an empty line, a message.
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
