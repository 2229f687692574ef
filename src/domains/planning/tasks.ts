const TASK = /^[ \t]*(?:>[ \t]*)*(?:[-*+]|\d{1,9}[.)])[ \t]+\[([ xX])\](?=\s|$)/;
const FENCE = /^[ \t]*(```|~~~)/;

/** Counts the tasks (`- [ ]`, `- [x]`) in a description and the completed ones. Code blocks do not count. */
export const taskCompletion = (description: string | null): { count: number; completed_count: number } => {
  let count = 0;
  let completed_count = 0;
  let fence: string | null = null;
  for (const line of description?.split('\n') ?? []) {
    const mark = FENCE.exec(line)?.[1];
    if (mark && (fence === null || fence === mark)) fence = fence === null ? mark : null;
    const task = fence === null ? TASK.exec(line) : null;
    if (!task) continue;
    count++;
    if (task[1] !== ' ') completed_count++;
  }
  return { count, completed_count };
};
