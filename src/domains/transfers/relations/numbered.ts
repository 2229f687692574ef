/** The relations whose items have a number in their project, with their table and the counter of the project. */
export const NUMBERED = {
  issues: { table: 'issues', counter: 'issue' },
  milestones: { table: 'milestones', counter: 'milestone' },
  ci_pipelines: { table: 'pipelines', counter: 'pipeline' },
  merge_requests: { table: 'merge_requests', counter: 'merge_request' },
} as const;
export type NumberedRelation = keyof typeof NUMBERED;

export const NUMBERED_RELATIONS = [
  'issues',
  'milestones',
  'ci_pipelines',
  'merge_requests',
] as const satisfies readonly NumberedRelation[];
