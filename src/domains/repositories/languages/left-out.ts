// What others wrote, what a program wrote, and what tells of the code in place of being it.

const FOLDERS = new Set([
  'node_modules',
  'bower_components',
  'vendor',
  'vendors',
  'vendored',
  'third_party',
  'third-party',
  'thirdparty',
  '3rdparty',
  'external',
  'externals',
  'deps',
  'dist',
  'pods',
  'carthage',
  'godeps',
  '.yarn',
  '.git',
  '.github',
  '.vscode',
  '.idea',
  '__pycache__',
  'site-packages',
  'javadoc',
  'documentation',
]);
/** Only at the root. */
const ROOT_FOLDERS = new Set(['doc', 'docs', 'man', 'example', 'examples', 'demo', 'demos', 'sample', 'samples']);

const FILES = new Set([
  'gradlew',
  'gradlew.bat',
  'mvnw',
  'mvnw.cmd',
  'configure',
  'config.guess',
  'config.sub',
  'aclocal.m4',
  'libtool.m4',
  'ltmain.sh',
  'install-sh',
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
const ENDINGS =
  /(?:[.-]min\.(?:js|css|mjs)|\.map|\.lock|\.bundle\.js|\.pb\.(?:go|cc|h)|_pb2(?:_grpc)?\.pyi?|\.g\.dart|\.freezed\.dart|\.designer\.(?:cs|vb)|\.generated\.[a-z]+|\.snap)$/;
const LIBRARIES =
  /^(?:jquery|bootstrap|angular|react|vue|d3|mootools|prototype|underscore|modernizr)(?:[.-]\d[\d.]*)?\.(?:js|css)$/;

/** Whether the file is no part of what the repository is written in. */
export const isLeftOut = (path: string): boolean => {
  const parts = path.toLowerCase().split('/');
  const name = parts.pop() ?? '';
  if (FILES.has(name) || ENDINGS.test(name) || LIBRARIES.test(name)) return true;
  return parts.some((folder, depth) => FOLDERS.has(folder) || (depth === 0 && ROOT_FOLDERS.has(folder)));
};
