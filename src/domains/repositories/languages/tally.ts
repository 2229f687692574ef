import type { FileEntry } from '#platform/git/objects.ts';
import { isGenerated } from '../generated-files.ts';
import type { Said } from './attributes.ts';
import type { Catalogue } from './catalogue.ts';
import { isDocumentation, isVendored } from './left-out.ts';

/**
 * The default language of an ambiguous extension. Extensions that are not listed default to their first counted
 * language.
 */
const USUAL: Readonly<Record<string, string>> = {
  '.h': 'C',
  '.hh': 'C++',
  '.cp': 'C++',
  '.re': 'Reason',
  '.m': 'Objective-C',
  '.v': 'Verilog',
  '.pl': 'Perl',
  '.pm': 'Perl',
  '.t': 'Perl',
  '.cgi': 'Perl',
  '.fcgi': 'PHP',
  '.r': 'R',
  '.rs': 'Rust',
  '.cs': 'C#',
  '.php': 'PHP',
  '.html': 'HTML',
  '.sql': 'SQL',
  '.spec': 'RPM Spec',
  '.inc': 'PHP',
  '.cls': 'TeX',
  '.f': 'Fortran',
  '.for': 'Fortran',
  '.fs': 'F#',
  '.fr': 'Text',
  '.ml': 'OCaml',
  '.l': 'Lex',
  '.s': 'Assembly',
  '.scm': 'Scheme',
  '.sls': 'Scheme',
  '.st': 'Smalltalk',
  '.sc': 'Scala',
  '.gs': 'JavaScript',
  '.es': 'JavaScript',
  '.frag': 'GLSL',
  '.shader': 'ShaderLab',
  '.gd': 'GDScript',
  '.tpl': 'Smarty',
  '.pp': 'Puppet',
  '.pro': 'Prolog',
  '.ex': 'Elixir',
  '.n': 'Roff',
  '.nr': 'Noir',
  '.ms': 'Roff',
  '.bas': 'Visual Basic 6.0',
  '.frm': 'Visual Basic 6.0',
  '.vba': 'VBA',
  '.fx': 'HLSL',
  '.i': 'SWIG',
  '.nu': 'Nushell',
  '.lsp': 'Common Lisp',
  '.mod': 'Linux Kernel Module',
  '.ncl': 'NCL',
  '.md': 'Markdown',
  '.json': 'JSON',
  '.yml': 'YAML',
  '.yaml': 'YAML',
  '.asc': 'AsciiDoc',
  '.srt': 'SubRip Text',
  '.pc': 'pkg-config',
  '.dsp': 'Microsoft Developer Studio Project',
  '.gml': 'XML',
  '.sch': 'KiCad Schematic',
  '.nl': 'NL',
  '.toc': 'World of Warcraft Addon Data',
  '.pbt': 'Protocol Buffer Text Format',
  '.msg': 'ROS Interface',
};
/** Scripts are short. A longer file that starts with `#!` is a built program. */
const MAX_SCRIPT_BYTES = 1024 * 1024;
const MAX_SCRIPTS = 500;
const REGULAR = new Set(['100644', '100755']);
const NOTHING: Said = {};

/** Adds up the bytes per language, file by file. */
export class Tally {
  readonly #catalogue: Catalogue;
  readonly #bytes = new Map<string, number>();
  /** Files whose extension belongs to several languages. */
  readonly #open: { readonly ending: string; readonly size: number; readonly said: Said }[] = [];
  /** Files without an extension. The interpreter in their first line decides. */
  readonly scripts: FileEntry[] = [];
  readonly #saidOfScripts = new Map<FileEntry, Said>();

  constructor(catalogue: Catalogue) {
    this.#catalogue = catalogue;
  }

  /** Counts a file by its path. `.gitattributes` take precedence. */
  add(file: FileEntry, said = NOTHING): void {
    const { path } = file;
    if (!REGULAR.has(file.mode) || file.size === 0 || said.detectable === false) return;
    if (said.vendored ?? isVendored(path)) return;
    if (said.generated ?? isGenerated(path)) return;
    if (said.documentation ?? isDocumentation(path)) return;
    const language = said.language === undefined ? null : this.#catalogue.named(said.language);
    if (language !== null) {
      this.#count(language, file.size, said);
      return;
    }
    const name = file.path.slice(file.path.lastIndexOf('/') + 1);
    const named = this.#catalogue.byFilename(name);
    if (named[0] !== undefined) {
      this.#count(named[0], file.size, said);
      return;
    }
    const dot = name.indexOf('.', 1);
    if (dot < 0) {
      if (file.size > MAX_SCRIPT_BYTES || this.scripts.length >= MAX_SCRIPTS) return;
      this.scripts.push(file);
      this.#saidOfScripts.set(file, said);
      return;
    }
    // Take the longest known extension: `.html.erb` before `.erb`.
    for (let at = dot; at >= 0; at = name.indexOf('.', at + 1)) {
      const ending = name.slice(at).toLowerCase();
      const [first, ...others] = this.#catalogue.byExtension(ending);
      if (first === undefined) continue;
      if (others.length === 0) this.#count(first, file.size, said);
      else this.#open.push({ ending, size: file.size, said });
      return;
    }
  }

  /** Counts a file without an extension by the start of its content. */
  addScript(file: FileEntry, beginning: string): void {
    const interpreter = interpreterOf(beginning);
    if (interpreter === null) return;
    const plain = interpreter.replace(/[\d.]+$/, '');
    const [language] = [...this.#catalogue.byInterpreter(interpreter), ...this.#catalogue.byInterpreter(plain)];
    if (language !== undefined) this.#count(language, file.size, this.#saidOfScripts.get(file) ?? NOTHING);
  }

  /**
   * Returns the bytes by language, largest first. An ambiguous extension counts for the candidate
   * with the most bytes in other files.
   */
  result(): ReadonlyMap<string, number> {
    const sure = new Map(this.#bytes);
    for (const { ending, size, said } of this.#open.splice(0)) this.#count(this.#decide(ending, sure), size, said);
    return new Map([...this.#bytes].toSorted(([a, sizeA], [b, sizeB]) => sizeB - sizeA || (a < b ? -1 : 1)));
  }

  #decide(ending: string, sure: ReadonlyMap<string, number>): string {
    const candidates = this.#catalogue.byExtension(ending);
    let found = USUAL[ending] ?? candidates.find((language) => this.#catalogue.isCounted(language)) ?? '';
    let most = 0;
    for (const language of candidates) {
      const bytes = sure.get(this.#catalogue.groupOf(language)) ?? 0;
      if (bytes > most) [found, most] = [language, bytes];
    }
    return found;
  }

  #count(language: string, bytes: number, { detectable }: Said): void {
    if (!(detectable ?? this.#catalogue.isCounted(language)) || language === '') return;
    const name = this.#catalogue.groupOf(language);
    this.#bytes.set(name, (this.#bytes.get(name) ?? 0) + bytes);
  }
}

/**
 * Returns the interpreter of the first line: `python3` for `#!/usr/bin/env -S python3 -u` and for `#!/usr/bin/python3`.
 */
export const interpreterOf = (beginning: string): string | null => {
  const line = /^#![ \t]*([^\r\n]{1,200})/.exec(beginning)?.[1];
  if (line === undefined) return null;
  const words = line.trim().split(/[ \t]+/);
  const program = words.shift()?.split('/').at(-1) ?? '';
  if (program !== 'env') return program || null;
  // The program that `env` runs, after its options and variables.
  return (
    words
      .find((word) => !word.startsWith('-') && !word.includes('='))
      ?.split('/')
      .at(-1) || null
  );
};
