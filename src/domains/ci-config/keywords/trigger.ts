import type { Trigger } from '../model.ts';
import { isList, isMapping, type Mapping, toJson, type Value } from '../values.ts';
import { type KeyPath, readBoolean, readHash, readOneOf, readText } from './key-path.ts';

const MAX_INCLUDES = 3;
const PROJECT_KEYS = ['project', 'branch', 'strategy', 'forward', 'inputs'];
const CHILD_KEYS = ['include', 'strategy', 'forward', 'inputs'];
const STRATEGIES = ['depend', 'mirror'] as const;
const INCLUDE_KEYS = [
  'local',
  'file',
  'ref',
  'project',
  'remote',
  'template',
  'artifact',
  'job',
  'component',
  'inputs',
  'rules',
];

/** Reads `trigger`: a project's path, a hash for a project, or a hash with `include` for a child pipeline. */
export const readTrigger = (value: Value | undefined, at: KeyPath): Trigger | null => {
  if (value === undefined || value === null) return null;
  if (typeof value === 'string') {
    return value === '' ? at.fail("can't be blank") : { ...usual, project: value, branch: null, include: [] };
  }
  if (!isMapping(value)) return at.fail('has to be either a string or a hash');
  if (value.has('include')) return readChild(value, at);
  if (!value.has('project')) return at.fail('should contain either a project or an include');
  const hash = readHash(value, at, PROJECT_KEYS);
  const project = hash && readText(hash, 'project', at);
  if (!hash || !project) return at.fail("can't be blank", 'project');
  return { ...readCommon(hash, at), project, branch: readText(hash, 'branch', at), include: [] };
};

const usual = { strategy: null, forward: { yaml_variables: true, pipeline_variables: false }, inputs: {} } as const;

const readCommon = (hash: Mapping, at: KeyPath): Pick<Trigger, 'strategy' | 'forward' | 'inputs'> => {
  const forward = hash.get('forward') ?? null;
  const given = forward === null ? null : readHash(forward, at.in('forward'), ['yaml_variables', 'pipeline_variables']);
  const inputs = hash.get('inputs') ?? null;
  const values = inputs === null ? null : readHash(inputs, at.in('inputs'));
  return {
    strategy: readOneOf(hash, 'strategy', STRATEGIES, at),
    forward: {
      yaml_variables: (given && readBoolean(given, 'yaml_variables', at.in('forward'))) ?? true,
      pipeline_variables: (given && readBoolean(given, 'pipeline_variables', at.in('forward'))) ?? false,
    },
    inputs: values ? Object.fromEntries([...values].map(([key, each]) => [key, toJson(each)])) : {},
  };
};

const readChild = (value: Mapping, at: KeyPath): Trigger | null => {
  const hash = readHash(value, at, CHILD_KEYS);
  if (!hash) return null;
  const include = hash.get('include') ?? null;
  const list = isList(include) ? include : [include];
  if (list.length > MAX_INCLUDES) at.in('include').fail(`is too long (maximum is ${MAX_INCLUDES})`);
  for (const each of list) {
    if (typeof each === 'string' && each !== '') continue;
    const entry = isMapping(each)
      ? readHash(each, at.in('include'), INCLUDE_KEYS)
      : at.in('include').fail('should be a hash or a string');
    if (entry?.has('artifact') && !entry.has('job')) {
      at.in('include').fail('must specify the job where to fetch the artifact from');
    }
  }
  return { ...readCommon(hash, at), project: null, branch: null, include: list.map(toJson) };
};
