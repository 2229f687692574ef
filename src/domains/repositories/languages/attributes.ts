import type { FileEntry } from '#platform/git/objects.ts';

/** The attributes of a file in `.gitattributes`. Attributes that are not set are absent. */
export interface Said {
  readonly vendored?: boolean;
  readonly generated?: boolean;
  readonly documentation?: boolean;
  /** Forces the file to be counted or not, regardless of the type of its language. */
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

/** Returns whether the file is a `.gitattributes` file to read. */
export const holdsAttributes = ({ path, mode, size }: FileEntry): boolean =>
  (path === '.gitattributes' || path.endsWith('/.gitattributes')) && mode !== '120000' && size <= MAX_BYTES;

/** Returns the files to read. If there are too many, those nearest to the root. */
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
    // An attribute without a value names no language.
    language: language === 'set' || language === 'unset' ? undefined : language,
  });
};

const given = (said: { readonly [K in keyof Said]: Said[K] | undefined }): Said =>
  Object.fromEntries(Object.entries(said).filter(([, value]) => value !== undefined));
