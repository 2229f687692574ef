import type { Prose } from '#domains/markdown/model.ts';
import type { LabelRow } from './queries.ts';

/** The description of a label, one line in Markdown. */
export const labelProse = ({
  description,
  project_id,
  namespace_id,
}: Pick<LabelRow, 'description' | 'project_id' | 'namespace_id'>): Prose => ({
  text: description,
  home: project_id === null ? { kind: 'group', id: namespace_id ?? 0 } : { kind: 'project', id: project_id },
  inline: true,
});
