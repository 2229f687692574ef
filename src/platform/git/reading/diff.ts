import { EMPTY_TREE } from '../objects/tree.ts';
import type { TreeReader } from '../objects/tree-reader.ts';
import { foreignObjects, type Runner } from '../process/runner.ts';
import { type Line, splitLines } from '../process/split-lines.ts';
import { streamOf } from '../process/stream.ts';
import { unquoteName } from '../quoted-names.ts';
import type { Diff, DiffFile, DiffOptions, GitReading } from '../reading.ts';
import { requireOids } from '../ref-names.ts';
import { fewChanges } from './tree-changes.ts';

const TIMEOUT_MS = 30_000;
// Defaults, which callers can override.
const MAX_FILES = 10_000;
const MAX_PATCH_BYTES = 200 * 1024;
const MAX_LINES = 50_000;
const MAX_BYTES = 10 * 1024 * 1024;

const FLAGS = [
  'diff-tree',
  '-r',
  '-M',
  '--raw',
  '-p',
  '--full-index',
  '--no-color',
  '--no-ext-diff',
  '--no-textconv',
  '--no-indent-heuristic',
  '--submodule=short',
];

/**
 * Parses `git diff-tree --raw -p` as it arrives: first the list of files, then the patch of each in the same order. git
 * quotes names, so a line break in a name cannot look like a new line.
 */
export const createDiff =
  (runner: Runner): GitReading['diff'] =>
  async (path, from, to, options = {}) => {
    requireOids([from ?? EMPTY_TREE, to]);
    const { signal, timeoutMs = TIMEOUT_MS, withObjectsOf, context, paths } = options;
    const flags = context === undefined ? FLAGS : [...FLAGS, `--unified=${context}`];
    const only = paths === undefined ? [] : ['--', ...paths];
    const source = runner.stream(path, [...flags, from ?? EMPTY_TREE, to, ...only], {
      config: ['core.quotePath=false'],
      env: foreignObjects(runner, withObjectsOf),
      signal,
      timeoutMs,
    });
    return read(source, options);
  };

const SLOW_TIMEOUT_MS = 600_000;
const SLOW_IDLE_MS = 60_000;

/** Streams the same changes as text, without limits. Names are quoted as by `git diff`, which `git apply` reads. */
export const createDiffText =
  (runner: Runner): GitReading['diffText'] =>
  (path, from, to, { signal, timeoutMs = SLOW_TIMEOUT_MS } = {}) => {
    requireOids([from, to]);
    // Counts as a file, because its reader may be slow.
    const release = runner.bounds.files.takeNow();
    const flags = FLAGS.filter((flag) => flag !== '--raw');
    const git = runner.launch(path, [...flags, from, to], { input: '' });
    const stream = streamOf(git, { signal, timeoutMs, idleTimeoutMs: SLOW_IDLE_MS });
    stream.once('close', release);
    return stream;
  };

const MAX_RENAMES_BYTES = 16 * 1024 * 1024;

/** Reads only names, so it costs far less than a diff. */
export const createRenames =
  (runner: Runner, trees: TreeReader): GitReading['renames'] =>
  async (path, from, to, { signal, timeoutMs = TIMEOUT_MS } = {}) => {
    requireOids([from ?? EMPTY_TREE, to]);
    const few = await fewChanges(trees, path, from, to);
    if (few?.added.length === 0 || few?.removed.length === 0) return new Map();
    const args = ['diff-tree', '-r', '-M', '--diff-filter=R', '--name-status', '-z', from ?? EMPTY_TREE, to];
    const { stdout } = await runner.run(path, args, { signal, timeoutMs, maxOutputBytes: MAX_RENAMES_BYTES });
    const fields = stdout.toString('utf8').split('\0');
    const renames = new Map<string, string>();
    for (let at = 0; at + 2 < fields.length; at += 3) renames.set(fields[at + 1] ?? '', fields[at + 2] ?? '');
    return renames;
  };

/** The files to return and their size limits. */
interface Bounds {
  readonly skip: number;
  readonly limit: number;
  readonly maxLines: number;
  readonly maxPatchBytes: number;
}

const read = async (source: AsyncGenerator<Buffer>, options: DiffOptions): Promise<Diff> => {
  const maxFiles = options.maxFiles ?? MAX_FILES;
  const bounds: Bounds = {
    skip: options.skip ?? 0,
    limit: options.limit ?? maxFiles,
    maxLines: options.maxLines ?? MAX_LINES,
    maxPatchBytes: options.maxPatchBytes ?? MAX_PATCH_BYTES,
  };
  const list = createFileList(maxFiles);
  let patches: PatchReader | null = null;
  try {
    for await (const line of splitLines(source)) {
      if (patches) {
        if (!patches.take(line)) break;
      } else if (line.begins && line.bytes.length <= 1) {
        patches = createPatchReader(list.files(), bounds); // the empty line after the list
        if (patches.isDone()) break;
      } else list.take(line);
    }
  } finally {
    await source.return(undefined);
  }
  const files = patches?.finish() ?? [];
  return {
    files,
    total: list.files().length,
    overflow: list.isCut() || files.some((file) => file.collapsed),
  };
};

type Listed = Omit<DiffFile, 'diff' | 'header' | 'collapsed' | 'too_large'>;

// `:100644 100755 <oid> <oid> R090\told name\tnew name`
const RAW = /^:(\d{6}) (\d{6}) [0-9a-f]+ [0-9a-f]+ ([A-Z])\d*\t([^\t]*)(?:\t([^\t]*))?$/;

const createFileList = (maxFiles: number) => {
  const files: Listed[] = [];
  let cut = false;
  return {
    files: (): readonly Listed[] => files,
    isCut: () => cut,
    take: ({ bytes, begins }: Line): void => {
      const match = begins ? RAW.exec(bytes.toString('utf8').replace(/\n$/, '')) : null;
      if (!match) return;
      const [, a_mode = '', b_mode = '', status = '', first = '', second] = match;
      const old_path = unquoteName(first);
      const new_path = second === undefined ? old_path : unquoteName(second);
      const file = { old_path, new_path, new_file: false, renamed_file: status === 'R', deleted_file: false };
      // If the type changes, for example from a file to a link, git writes a deletion and a creation: two patches.
      const found: Listed[] =
        status === 'T'
          ? [
              { ...file, a_mode, b_mode: '0', deleted_file: true },
              { ...file, a_mode: '0', b_mode, new_file: true },
            ]
          : [
              {
                ...file,
                a_mode: modeOf(a_mode),
                b_mode: modeOf(b_mode),
                new_file: status === 'A',
                deleted_file: status === 'D',
              },
            ];
      if (files.length + found.length > maxFiles) cut = true;
      if (!cut) files.push(...found);
    },
  };
};

const modeOf = (mode: string): string => (mode === '000000' ? '0' : mode);

interface PatchReader {
  /** Returns false when no more lines are needed. */
  take(line: Line): boolean;
  isDone(): boolean;
  finish(): DiffFile[];
}

const BEGINNING = Buffer.from('diff --git ');

const createPatchReader = (listed: readonly Listed[], bounds: Bounds): PatchReader => {
  const { skip, limit, maxLines, maxPatchBytes } = bounds;
  const files: DiffFile[] = [];
  const end = Math.min(listed.length, skip + limit);
  let at = -1;
  let lines = 0;
  let bytes = 0;
  let patch = emptyPatch();

  const close = (): void => {
    const file = listed[at];
    if (!file || at < skip || at >= end) return;
    const collapsed = !patch.tooLarge && (lines + patch.lines > maxLines || bytes + patch.size > MAX_BYTES);
    const kept = !patch.tooLarge && !collapsed;
    if (kept) {
      lines += patch.lines;
      bytes += patch.size;
    }
    files.push({
      ...file,
      diff: kept ? Buffer.concat(patch.body).toString('utf8') : '',
      header: kept ? patch.header : '',
      collapsed,
      too_large: patch.tooLarge,
    });
  };

  return {
    isDone: () => skip >= end,
    take: (line) => {
      if (line.begins && line.bytes.subarray(0, BEGINNING.length).equals(BEGINNING)) {
        close();
        at += 1;
        patch = emptyPatch();
        return at < end;
      }
      if (at >= skip) addLine(patch, line, maxPatchBytes);
      return true;
    },
    finish: () => {
      if (at < end) close();
      return files;
    },
  };
};

interface Patch {
  header: string;
  body: Buffer[];
  size: number;
  lines: number;
  tooLarge: boolean;
}

const emptyPatch = (): Patch => ({ header: '', body: [], size: 0, lines: 0, tooLarge: false });

const HUNK = 0x40; // @
const BINARY = Buffer.from('Binary files ');

const addLine = (patch: Patch, { bytes, begins }: Line, maxPatchBytes: number): void => {
  if (patch.body.length === 0 && !patch.tooLarge) {
    const isBody = bytes[0] === HUNK || bytes.subarray(0, BINARY.length).equals(BINARY);
    if (!isBody) {
      const text = bytes.toString('utf8');
      if (text.startsWith('--- ') || text.startsWith('+++ ')) patch.header += text;
      return;
    }
  }
  patch.size += bytes.length;
  if (begins) patch.lines += 1;
  if (patch.size > maxPatchBytes) {
    patch.tooLarge = true;
    patch.body = [];
  } else patch.body.push(Buffer.from(bytes));
};
