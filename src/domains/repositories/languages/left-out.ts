// Recognises files that do not count besides generated code: vendored code and documentation.

const VENDORED = new Set([
  'node_modules',
  'bower_components',
  'vendor',
  'vendors',
  'vendored',
  'third_party',
  'third-party',
  'thirdparty',
  '3rdparty',
  'extern',
  'external',
  'externals',
  'dist',
  'cache',
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
]);
/** Only at the root. */
const ROOT_VENDORED = new Set(['deps', 'dependencies', 'debian']);
const DOCUMENTATION = new Set(['javadoc', 'groovydoc', 'documentation']);
/** Only at the root. */
const ROOT_DOCUMENTATION = new Set(['doc', 'docs', 'man', 'example', 'examples', 'demo', 'demos', 'sample', 'samples']);

const VENDORED_FILES = new Set([
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
]);
const VENDORED_ENDINGS = /(?:[.-]min\.(?:js|css|mjs)|\.d\.ts|-vsdoc\.js)$/;
const LIBRARIES =
  /^(?:jquery|bootstrap|angular|react|vue|d3|mootools|prototype|underscore|modernizr)(?:[.-]\d[\d.]*)?\.(?:js|css)$/;

/** Returns whether the file is vendored third-party code. */
export const isVendored = (path: string): boolean => {
  const { name, folders } = split(path);
  if (VENDORED_FILES.has(name) || VENDORED_ENDINGS.test(name) || LIBRARIES.test(name)) return true;
  return isIn(folders, VENDORED, ROOT_VENDORED) || /^(?:tests?|specs?)\/fixtures\//i.test(path);
};

/** Returns whether the file is documentation. */
export const isDocumentation = (path: string): boolean => isIn(split(path).folders, DOCUMENTATION, ROOT_DOCUMENTATION);

const split = (path: string) => {
  const folders = path.toLowerCase().split('/');
  const name = folders.pop() ?? '';
  return { name, folders };
};

const isIn = (folders: readonly string[], anywhere: ReadonlySet<string>, atRoot: ReadonlySet<string>): boolean =>
  folders.some((folder, depth) => anywhere.has(folder) || (depth === 0 && atRoot.has(folder)));
