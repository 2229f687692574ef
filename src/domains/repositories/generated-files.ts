const GENERATED_FILES = new Set([
  'package-lock.json',
  'npm-shrinkwrap.json',
  'pnpm-lock.yaml',
  'yarn.lock',
  'cargo.lock',
  'composer.lock',
  'gemfile.lock',
  'poetry.lock',
  'pipfile.lock',
  'uv.lock',
  'flake.lock',
  'go.sum',
]);
const GENERATED_ENDINGS =
  /(?:[.-]min\.(?:js|css|mjs)|\.map|\.lock|\.bundle\.js|\.pb\.(?:go|cc|h)|_pb2(?:_grpc)?\.pyi?|\.g\.dart|\.freezed\.dart|\.designer\.(?:cs|vb)|\.generated\.[a-z]+|\.snap)$/;

/** Returns whether the file at this path was generated, judged by its name. */
export const isGenerated = (path: string): boolean => {
  const name = path.slice(path.lastIndexOf('/') + 1).toLowerCase();
  return GENERATED_FILES.has(name) || GENERATED_ENDINGS.test(name);
};
