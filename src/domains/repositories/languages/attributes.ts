import type { FileEntry } from '#platform/git/types.ts';

/** What `.gitattributes` say of a file, as far as they do. */
export interface Said {
  readonly vendored?: boolean;
  readonly generated?: boolean;
  readonly documentation?: boolean;
  /** Counted or not, whatever kind of language it is in. */
  readonly detectable?: boolean;
  readonly language?: string;
}

const MAX_FILES = 1_000;
const MAX_BYTES = 256 * 1024;

export const ATTRIBUTES: readonly string[] = [
  'linguist-vendored',
  'linguist-generated',
  'linguist-documentation',
  'linguist-detectable',
  'linguist-language',
];

/** Whether the file holds attributes that are looked at. */
export const holdsAttributes = ({ path, mode, size }: FileEntry): boolean =>
  (path === '.gitattributes' || path.endsWith('/.gitattributes')) && mode !== '120000' && size <= MAX_BYTES;

/** Those of the files that are looked at, the outer ones first where there are too many. */
export const fewest = (files: readonly FileEntry[]): readonly FileEntry[] =>
  files.length <= MAX_FILES
    ? files
    : files.toSorted((a, b) => a.path.split('/').length - b.path.split('/').length).slice(0, MAX_FILES);

export const readSaid = (values: ReadonlyMap<string, string>): Said => {
  const flag = (name: string): boolean | undefined => {
    const value = values.get(`linguist-${name}`);
    return value === undefined ? undefined : value !== 'false' && value !== 'unset';
  };
  const language = values.get('linguist-language');
  return given({
    vendored: flag('vendored'),
    generated: flag('generated'),
    documentation: flag('documentation'),
    detectable: flag('detectable'),
    // Without a name it says nothing.
    language: language === 'set' || language === 'unset' ? undefined : language,
  });
};

const given = (said: { readonly [K in keyof Said]: Said[K] | undefined }): Said =>
  Object.fromEntries(Object.entries(said).filter(([, value]) => value !== undefined));
