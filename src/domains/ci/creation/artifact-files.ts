import type { ReadArtifact } from '#domains/ci-config/included-files.ts';
import type { ProjectRow } from '#domains/projects/model.ts';
import type { Context } from '#platform/context.ts';
import { definePort } from '#platform/port.ts';

/** Returns a function that reads files from the archives of a pipeline's jobs, for CI files that jobs write. */
export const artifactReader = definePort<Context, [project: ProjectRow, pipelineId: number], ReadArtifact>(
  'ci.artifactReader',
);
