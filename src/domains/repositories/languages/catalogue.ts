/** The known languages and how to recognise them. */
export interface Catalogue {
  /** Returns the languages of files with exactly this name. */
  byFilename(name: string): readonly string[];
  /** Returns the languages of files with this extension, in lower case and with the dot. */
  byExtension(extension: string): readonly string[];
  byInterpreter(interpreter: string): readonly string[];
  /** Returns the language with this name or alias, regardless of case, or null. */
  named(name: string): string | null;
  /** Returns whether the language counts. Only programming languages and markup count, not data or prose. */
  isCounted(language: string): boolean;
  /** Returns the language that this one is counted as, such as TypeScript for TSX. */
  groupOf(language: string): string;
  /** Returns a color such as `#3572A5`, or null. */
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

/** Loads the catalogue on first use, because it has many hundred modules. */
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
  // Where spaces end a name, `Visual Basic .NET` is written `Visual-Basic-.NET`.
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
