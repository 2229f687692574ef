/** How languages are told apart, and shown. */
export interface Catalogue {
  /** The languages of files with exactly this name. */
  byFilename(name: string): readonly string[];
  /** The languages of files that end so, in lower case and with the dot. */
  byExtension(extension: string): readonly string[];
  byInterpreter(interpreter: string): readonly string[];
  /** The language that is called so, or has this for another name, in whatever case; null for none. */
  named(name: string): string | null;
  /** What is counted are programming languages and markup: neither data nor prose. */
  isCounted(language: string): boolean;
  /** Some are told as part of another: TSX as TypeScript. */
  groupOf(language: string): string;
  /** `#3572A5` */
  colorOf(language: string): string | null;
}

interface Entry {
  readonly name: string;
  readonly type: string;
  readonly group?: string;
  readonly color?: string;
  readonly extensions?: readonly string[];
  readonly filenames?: readonly string[];
  readonly interpreters?: readonly string[];
  readonly aliases?: readonly string[];
}

let loading: Promise<Catalogue> | undefined;

/** Loaded when it is first asked for, as it is many hundred modules. */
export const loadCatalogue = (): Promise<Catalogue> => {
  loading ??= import('linguist-languages').then((all) => build(Object.values(all)));
  return loading;
};

const build = (entries: readonly Entry[]): Catalogue => {
  const byName = new Map(entries.map((entry) => [entry.name, entry]));
  const index = (keysOf: (entry: Entry) => readonly string[] | undefined) => {
    const found = new Map<string, string[]>();
    for (const entry of entries) {
      for (const key of keysOf(entry) ?? []) {
        const names = found.get(key) ?? [];
        names.push(entry.name);
        found.set(key, names);
      }
    }
    return (key: string): readonly string[] => found.get(key) ?? [];
  };
  // `Visual Basic .NET` is written `Visual-Basic-.NET` where spaces end a name.
  const byAnyName = index(({ name }) => [name.toLowerCase(), name.toLowerCase().replaceAll(' ', '-')]);
  const byAlias = index((entry) => entry.aliases?.map((alias) => alias.toLowerCase()));
  return {
    byFilename: index((entry) => entry.filenames),
    byExtension: index((entry) => entry.extensions?.map((extension) => extension.toLowerCase())),
    byInterpreter: index((entry) => entry.interpreters),
    named: (name) => byAnyName(name.toLowerCase())[0] ?? byAlias(name.toLowerCase())[0] ?? null,
    isCounted: (language) => ['programming', 'markup'].includes(byName.get(language)?.type ?? ''),
    groupOf: (language) => byName.get(language)?.group ?? language,
    colorOf: (language) => byName.get(language)?.color ?? null,
  };
};
