import { invalid, requireValid, tooLong } from '#platform/errors.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';

export const LINK_TYPES = ['other', 'runbook', 'image', 'package'] as const;
export type LinkType = (typeof LINK_TYPES)[number];

export interface LinkAttributes {
  readonly name?: string | undefined;
  readonly url?: string | undefined;
  /** The path of the link below the release, such as `/binaries/linux`. */
  readonly filepath?: string | null | undefined;
  readonly link_type?: LinkType | undefined;
}

export type NewLink = LinkAttributes & { readonly name: string; readonly url: string };

export const TAKEN = 'has already been taken';

export const MAX_LINKS = 100;
const MAX_NAME = 255;
const MAX_URL = 2_048;
const MAX_DESCRIPTION = 1_000_000;
const SCHEMES: ReadonlySet<string> = new Set(['http:', 'https:', 'ftp:']);
const FILEPATH = /^\/(?:[-.\w]+\/)*[-.\w]*[\dA-Za-z]$/;

/** @throws DomainError `invalid` by attribute */
export const checkLink = ({ name, url, filepath }: LinkAttributes): void => {
  const errors: Record<string, string[]> = {};
  if (name !== undefined && name.trim() === '') errors.name = ["can't be blank"];
  if (name !== undefined && isLongerThan(name, MAX_NAME)) errors.name = [tooLong(MAX_NAME)];
  if (url !== undefined && !isAddress(url)) errors.url = ['is blocked: Only allowed schemes are http, https, ftp'];
  if (filepath != null && (filepath.length > 128 || !FILEPATH.test(filepath) || filepath.includes('..'))) {
    errors.filepath = ['is in an invalid format'];
  }
  requireValid(errors);
};

/**
 * Checks all links of a new release.
 *
 * @throws DomainError `invalid` by attribute, also for too many, and if two have one name, URL or path
 */
export const checkLinks = (links: readonly NewLink[]): void => {
  if (links.length > MAX_LINKS) throw invalid({ links: [`may be at most ${MAX_LINKS}`] });
  for (const link of links) checkLink(link);
  for (const attribute of ['name', 'url', 'filepath'] as const) {
    const values = links.flatMap((link) => link[attribute] ?? []);
    if (new Set(values).size < values.length) throw invalid({ [attribute]: [TAKEN] });
  }
};

/** The URL is shown as a link. The hub never fetches it. */
const isAddress = (url: string): boolean => {
  const parsed = url.length > MAX_URL ? null : URL.parse(url);
  return parsed !== null && SCHEMES.has(parsed.protocol) && parsed.hostname !== '';
};

/** @throws DomainError `invalid` by attribute */
export const checkRelease = ({
  name,
  description,
}: {
  readonly name?: string | null | undefined;
  readonly description?: string | null | undefined;
}): void => {
  const errors: Record<string, string[]> = {};
  if (isLongerThan(name ?? '', MAX_NAME)) errors.name = [tooLong(MAX_NAME)];
  if (isLongerThan(description ?? '', MAX_DESCRIPTION)) {
    errors.description = [tooLong(MAX_DESCRIPTION)];
  }
  requireValid(errors);
};
