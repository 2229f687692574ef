export { forgetFetches } from './fetches.ts';
export { detectLanguages, detectMissingLanguages } from './languages.ts';
export { deleteMergedBranches } from './merged-branches.ts';
export { settlePushes } from './pushes.ts';
export { packRepository, refreshStatistics } from './upkeep.ts';
