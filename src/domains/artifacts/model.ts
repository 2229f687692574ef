/** How the file of an artifact is packed. */
export const FILE_FORMATS = ['zip', 'gzip', 'raw'] as const;
export type FileFormat = (typeof FILE_FORMATS)[number];

/** The types that runners upload, with the format of each (reference: ci §1 `reports`, §6). */
const FORMAT_OF = {
  archive: 'zip',
  metrics: 'gzip',
  metrics_referee: 'gzip',
  network_referee: 'gzip',
  junit: 'gzip',
  dotenv: 'gzip',
  cobertura: 'gzip',
  jacoco: 'gzip',
  cyclonedx: 'gzip',
  annotations: 'gzip',
  repository_xray: 'gzip',
  lsif: 'zip',
  accessibility: 'raw',
  api_fuzzing: 'raw',
  browser_performance: 'raw',
  cluster_image_scanning: 'raw',
  codequality: 'raw',
  container_scanning: 'raw',
  coverage_fuzzing: 'raw',
  dast: 'raw',
  dependency_scanning: 'raw',
  license_scanning: 'raw',
  load_performance: 'raw',
  performance: 'raw',
  requirements: 'raw',
  requirements_v2: 'raw',
  sast: 'raw',
  secret_detection: 'raw',
  terraform: 'raw',
} as const satisfies Record<string, FileFormat>;

export type FileType = keyof typeof FORMAT_OF;

export const isFileType = (name: string): name is FileType => Object.hasOwn(FORMAT_OF, name);

export const FILE_TYPES: readonly FileType[] = Object.keys(FORMAT_OF).filter(isFileType);

/** The types that people download. Dotenv reports may hold secrets: only later jobs get their variables. */
export const DOWNLOADABLE: readonly FileType[] = FILE_TYPES.filter((type) => type !== 'dotenv');

export const formatOf = (type: FileType): FileFormat => FORMAT_OF[type];

/** Returns the folder of the stored files of a job. */
export const artifactFolder = (projectId: number, jobId: number): string => `artifacts/${projectId}/${jobId}`;

/** The file names that browsers may show are few: everything else is a download of bytes. */
const CONTENT_TYPES: Readonly<Record<string, string>> = {
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  gif: 'image/gif',
  webp: 'image/webp',
  pdf: 'application/pdf',
  json: 'application/json',
  xml: 'application/xml',
  zip: 'application/zip',
  gz: 'application/gzip',
  tgz: 'application/gzip',
  tar: 'application/x-tar',
};

/** Text that a browser would interpret is sent as plain text. */
const TEXTS = /\.(txt|log|md|csv|tsv|html?|xhtml|svg|css|m?js|ts|ya?ml|toml|ini|conf|diff|patch|sh)$/i;

/** Returns the media type of a file of an archive, by its name. */
export const contentTypeOf = (path: string): string => {
  const name = baseName(path);
  if (TEXTS.test(name)) return 'text/plain; charset=utf-8';
  return CONTENT_TYPES[name.slice(name.lastIndexOf('.') + 1).toLowerCase()] ?? 'application/octet-stream';
};

/** Returns the last segment of a path. */
export const baseName = (path: string): string => path.replace(/\/$/, '').replace(/^.*\//s, '');
