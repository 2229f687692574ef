import { type Overrides, readOverrides } from '#domains/projects/overrides.ts';
import type { ImportRow } from '../model.ts';

/** Returns the overrides of an import of an archive, as `scheduleImport` stored them. */
export const overridesOf = ({ override_params: stored }: Pick<ImportRow, 'override_params'>): Overrides =>
  typeof stored === 'object' && stored !== null && !Array.isArray(stored) ? readOverrides(stored) : {};
