export { forgetFetches } from './fetches.ts';
export { detectLanguages, detectMissingLanguages } from './languages.ts';
export { deleteMergedBranches } from './merged-branches.ts';
export { packRepository } from './packing.ts';
export { settleFirstPush, settlePushes } from './pushes.ts';
export { refreshStatistics } from './upkeep.ts';
