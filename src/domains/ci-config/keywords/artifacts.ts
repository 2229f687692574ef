import { tooLong } from '#platform/errors.ts';
import { readExpiry } from '#platform/values/durations.ts';
import { isLongerThan } from '#platform/values/longer-than.ts';
import { ARTIFACT_ACCESSES, type JobArtifacts, RESULT_WHEN } from '../model.ts';
import { isMapping, type Value } from '../values.ts';
import { type KeyPath, readBoolean, readHash, readOneOf, readText, readTextOrTexts, readTexts } from './key-path.ts';

const KEYS = ['name', 'paths', 'exclude', 'untracked', 'when', 'expire_in', 'expose_as', 'reports', 'public', 'access'];
const REPORTS = [
  'junit',
  'coverage_report',
  'codequality',
  'sast',
  'secret_detection',
  'dependency_scanning',
  'container_scanning',
  'cluster_image_scanning',
  'dast',
  'coverage_fuzzing',
  'api_fuzzing',
  'browser_performance',
  'load_performance',
  'performance',
  'license_scanning',
  'metrics',
  'lsif',
  'dotenv',
  'terraform',
  'accessibility',
  'requirements',
  'requirements_v2',
  'cyclonedx',
  'annotations',
  'repository_xray',
];
const COVERAGE_FORMATS = ['cobertura', 'jacoco'];
const EXPOSED_NAME = /^[a-zA-Z0-9\-_ ]+$/;

/** Reads `artifacts`. A coverage report is listed under its format. */
export const readArtifacts = (value: Value | undefined, at: KeyPath): JobArtifacts | null => {
  if (value === undefined || value === null) return null;
  const hash = readHash(value, at, KEYS);
  if (!hash) return null;
  const expire_in = hash.get('expire_in') ?? null;
  if (expire_in !== null && readExpiry(String(expire_in)) === undefined) at.fail('should be a duration', 'expire in');
  const open = readBoolean(hash, 'public', at);
  const access = readOneOf(hash, 'access', ARTIFACT_ACCESSES, at);
  if (open !== null && access !== null) at.fail('these keys cannot be used together: public, access');
  const expose_as = readText(hash, 'expose_as', at);
  const paths = readTexts(hash, 'paths', at) ?? [];
  if (expose_as !== null) checkExposed(expose_as, paths, at);
  return {
    name: readText(hash, 'name', at),
    paths,
    exclude: readTexts(hash, 'exclude', at) ?? [],
    untracked: readBoolean(hash, 'untracked', at) ?? false,
    when: readOneOf(hash, 'when', RESULT_WHEN, at) ?? 'on_success',
    expire_in: expire_in === null ? null : String(expire_in),
    expose_as,
    access: access ?? (open === false ? 'developer' : 'all'),
    reports: readReports(hash.get('reports') ?? null, at.in('reports')),
  };
};

const checkExposed = (name: string, paths: readonly string[], at: KeyPath): void => {
  if (isLongerThan(name, 100)) at.fail(tooLong(100), 'expose as');
  if (!EXPOSED_NAME.test(name)) at.fail('can contain only letters, digits, `-`, `_` and spaces', 'expose as');
  if (paths.length === 0) at.fail("can't be blank", 'paths');
  if (paths.some((path) => path.includes('*'))) at.fail("can't contain '*' when used with 'expose_as'", 'paths');
};

const readReports = (value: Value, at: KeyPath): Readonly<Record<string, readonly string[]>> => {
  if (value === null) return {};
  const hash = readHash(value, at, REPORTS);
  const reports = new Map<string, readonly string[]>();
  for (const [type, given] of hash ?? []) {
    if (given === null) continue;
    if (type !== 'coverage_report') {
      const paths = hash && readTextOrTexts(hash, type, at);
      if (paths) reports.set(type, paths);
      continue;
    }
    const coverage = isMapping(given)
      ? readHash(given, at.in(type), ['coverage_format', 'path'])
      : at.in(type).fail('should be a hash');
    const format = coverage?.get('coverage_format');
    const path = coverage?.get('path');
    if (!coverage) continue;
    if (typeof format !== 'string' || !COVERAGE_FORMATS.includes(format)) {
      at.in(type).fail(`must be one of supported formats: ${COVERAGE_FORMATS.join(', ')}`, 'coverage format');
    } else if (typeof path !== 'string' || path === '') at.in(type).fail("can't be blank", 'path');
    else reports.set(format, [path]);
  }
  return Object.fromEntries(reports);
};
