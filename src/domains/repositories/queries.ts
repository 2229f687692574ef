// The front door for other domains.
export { listTags } from './queries/tags.ts';
