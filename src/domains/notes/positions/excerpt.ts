import { z } from 'zod';

/** A part of the diff of a file, as webhook bodies of comments include it (`st_diff`). */
export const excerptSchema = z.object({
  diff: z.string(),
  new_path: z.string(),
  old_path: z.string(),
  a_mode: z.string(),
  b_mode: z.string(),
  new_file: z.boolean(),
  renamed_file: z.boolean(),
  deleted_file: z.boolean(),
});
export type DiffExcerpt = z.output<typeof excerptSchema>;

/** The line and those before it. */
const MAX_LINES = 16;
const MAX_LINE_CHARS = 2_000;

/** Cuts the patch of the file down to the lines that lead to a line, as upstream shows above a comment. */
export const excerptOf = (file: DiffExcerpt, oldNumber: number, newNumber: number): DiffExcerpt => ({
  diff: leadingTo(file.diff, oldNumber, newNumber),
  new_path: file.new_path,
  old_path: file.old_path,
  a_mode: file.a_mode,
  b_mode: file.b_mode,
  new_file: file.new_file,
  renamed_file: file.renamed_file,
  deleted_file: file.deleted_file,
});

/** Empty for a line outside of the patch. */
const leadingTo = (patch: string, oldNumber: number, newNumber: number): string => {
  let kept: string[] = [];
  let header = '';
  let [old, now] = [0, 0];
  for (const line of patch.split('\n')) {
    const [, oldStart, newStart] = /^@@ -(\d+)(?:,\d+)? \+(\d+)(?:,\d+)? @@/.exec(line) ?? [];
    if (oldStart !== undefined) {
      header = line;
      kept = [];
      [old, now] = [Number(oldStart), Number(newStart)];
      continue;
    }
    kept.push(line.slice(0, MAX_LINE_CHARS));
    if (kept.length > MAX_LINES) kept.shift();
    if (old === oldNumber && now === newNumber) return `${[header, ...kept].join('\n')}\n`;
    if (line.startsWith('-')) old += 1;
    else if (line.startsWith('+')) now += 1;
    else if (line.startsWith(' ')) [old, now] = [old + 1, now + 1];
  }
  return '';
};
