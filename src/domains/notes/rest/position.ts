import { hash, integer, oneOf, text } from '#rest/params.ts';
import { POSITION_TYPES } from '../positions/model.ts';

const line = integer({ min: 1, max: 2 ** 31 - 1 });
const path = text({ max: 4_096 });
const sha = text({ max: 64 });
const pixels = integer({ min: 0, max: 2 ** 31 - 1 });

const end = hash({
  line_code: text({ max: 100 }).nullish(),
  type: text({ max: 20 }).nullish(),
  old_line: line.nullish(),
  new_line: line.nullish(),
});

/** A place in the diff of a merge request (reference: merge-requests §7). */
export const position = hash({
  position_type: oneOf(POSITION_TYPES),
  base_sha: sha,
  start_sha: sha,
  head_sha: sha,
  old_path: path.nullish(),
  new_path: path.nullish(),
  old_line: line.nullish(),
  new_line: line.nullish(),
  line_range: hash({ start: end, end }).nullish(),
  width: pixels.nullish(),
  height: pixels.nullish(),
  x: pixels.nullish(),
  y: pixels.nullish(),
});
