import { isList, isMapping, toJson, type Value } from '../values.ts';
import { type KeyPath, readHash, readText, readTexts } from './key-path.ts';

const KEYS = ['tag_name', 'tag_message', 'name', 'description', 'ref', 'milestones', 'released_at', 'assets'];
const LINK_KEYS = ['name', 'url', 'filepath', 'link_type'];

/** Reads `release`, which the runner's release step is made from. */
export const readRelease = (value: Value | undefined, at: KeyPath): Readonly<Record<string, unknown>> | null => {
  if (value === undefined || value === null) return null;
  const hash = readHash(value, at, KEYS);
  if (!hash) return null;
  for (const key of ['tag_name', 'description']) {
    if (!readText(hash, key, at)) at.fail("can't be blank", key.replace('_', ' '));
  }
  for (const key of ['tag_message', 'name', 'ref', 'released_at']) readText(hash, key, at);
  const milestones = hash.get('milestones') ?? null;
  if (milestones !== null && typeof milestones !== 'string') readTexts(hash, 'milestones', at);
  const assets = hash.get('assets') ?? null;
  const links = assets === null ? null : readHash(assets, at.in('assets'), ['links'])?.get('links');
  if (links !== null && links !== undefined && !(isList(links) && links.every(isMapping))) {
    at.in('assets').in('links').fail('should be an array of hashes');
  } else if (isList(links)) for (const link of links) checkLink(link, at.in('assets').in('links').in('link'));
  return Object.fromEntries([...hash].map(([key, each]) => [key, toJson(each)]));
};

const checkLink = (value: Value, at: KeyPath): void => {
  const link = readHash(value, at, LINK_KEYS);
  if (!link) return;
  for (const key of ['name', 'url']) if (!readText(link, key, at)) at.fail("can't be blank", key);
};
