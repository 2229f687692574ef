import { MAINTAINER, REPORTER } from '#domains/access/model.ts';
import { type ProjectRow, projectScope } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import { insufficientScope } from '#platform/errors.ts';

/** Events about keys and settings are only for those who administer them. */
export const maintainersOf = (project: ProjectRow, subject: { readonly type: string; readonly id: number }) => ({
  ...projectScope(project),
  min_access_level: MAINTAINER,
  subject,
});

/** The scope of events about errors: those who can read the errors of the project. */
export const errorScope = (project: {
  readonly id: number;
  readonly namespace_ids: readonly number[];
  readonly visibility_level: number;
}) => ({
  project_id: project.id,
  namespace_ids: project.namespace_ids,
  visibility_level: project.visibility_level,
  min_access_level: REPORTER,
});

/** The scopes of tokens that may read client keys, because keys let applications write (specification 1 §4.6). */
export const KEY_SCOPES = ['api'] as const;

/** The same check for GraphQL, whose other reads need less. @throws DomainError `insufficient_scope` */
export const requireKeyScope = ({ actor }: Pick<Context, 'actor'>): void => {
  const { scopes } = actor;
  if (scopes !== null && !KEY_SCOPES.some((scope) => scopes.has(scope))) throw insufficientScope(KEY_SCOPES);
};
