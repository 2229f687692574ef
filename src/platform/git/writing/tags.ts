import { GitError } from '../git-error.ts';
import { createNewObjects } from '../objects/new-objects.ts';
import type { ObjectReader } from '../objects/reader.ts';
import { parseTag } from '../objects/tag.ts';
import { oidOf, writeObjects } from '../objects/writer.ts';
import type { TagObject } from '../objects.ts';
import type { Runner } from '../process/runner.ts';
import { requireOids, validOid, validRefName } from '../ref-names.ts';
import type { Git } from '../types.ts';
import { signatureLine } from './identity.ts';
import { inQuarantine } from './quarantine.ts';

/** Creates and reads annotated tags. */
export const createTagObjects = (
  runner: Runner,
  objects: ObjectReader,
): Pick<Git, 'createTagObject' | 'readTagObjects'> => ({
  async createTagObject(path, { name, commit, message, tagger }, judge) {
    if (!validRefName(name)) throw new GitError('invalid', 'The tag name is not valid');
    requireOids([commit]);
    if (message.includes('\0')) throw new GitError('invalid', 'The message must not contain NUL');
    const text = message.endsWith('\n') ? message : `${message}\n`;
    const content = Buffer.from(
      `object ${commit}\ntype commit\ntag ${name}\ntagger ${signatureLine(tagger)}\n\n${text}`,
    );
    const oid = oidOf({ type: 'tag', content });
    if (!judge) {
      await writeObjects(runner, path, [{ type: 'tag', content, oid }]);
      return oid;
    }
    return inQuarantine(runner, path, async ({ env }) => {
      await writeObjects(runner, path, [{ type: 'tag', content, oid }], env);
      await judge(oid, createNewObjects(runner, objects, path, env));
      return oid;
    });
  },

  async readTagObjects(path, oids) {
    const found = await Promise.all(oids.filter(validOid).map((oid) => objects.read(path, 'contents', oid)));
    return found.flatMap((object): TagObject[] =>
      object?.type === 'tag' ? [parseTag(object.oid, object.content)] : [],
    );
  },
});
