import { Cache } from '#platform/cache.ts';
import type { NormalizedFrame } from '../event.ts';

/** The parts of a frame that stay the same between occurrences and builds, and so decide the group. */
interface StableFrame {
  readonly place: string;
  readonly code: string;
}

/** Frames further from the crash say little about the error. */
const MAX_FRAMES = 10;
const SCRIPTS = new Set(['javascript', 'node']);
/** A longer source line is minified code, which changes with each build. */
const MAX_SOURCE_LINE = 200;
const MIN_SCRIPT_NAME = 3;

/** The folders of libraries, for SDKs that do not mark the application's own code. */
const LIBRARIES =
  /(?:^|[\\/])(?:node_modules|site-packages|dist-packages|vendor|gems|\.cargo)[\\/]|^(?:node:|internal[\\/]|<frozen )/;
const LIBRARY_MODULES = /^(?:java|javax|jdk|sun|com\.sun|kotlin|scala|std|core|alloc)(?:[.:]|$)/;

/**
 * Returns the frames that decide the group, the crash last: at most ten of the application's own, or of all if it has
 * none. Empty if no frame is usable.
 */
export const stableFrames = (frames: readonly NormalizedFrame[], platform: string): readonly StableFrame[] => {
  const own = frames.filter(isInApp);
  return framesOf(own, platform) ?? framesOf(frames, platform) ?? [];
};

const framesOf = (frames: readonly NormalizedFrame[], platform: string): readonly StableFrame[] | null => {
  const found: StableFrame[] = [];
  for (const frame of frames.toReversed()) {
    const stable = stableFrame(frame, frame.platform ?? platform);
    const caller = found.at(-1);
    if (!stable || (caller?.place === stable.place && caller.code === stable.code)) continue;
    found.push(stable);
    if (found.length === MAX_FRAMES) break;
  }
  return found.length === 0 ? null : found.toReversed();
};

/** Returns true for the application's own code. Guesses by the path if the SDK does not say. */
export const isInApp = ({ in_app, filename, abs_path, module }: NormalizedFrame): boolean =>
  in_app ?? !(LIBRARIES.test(abs_path ?? filename ?? '') || LIBRARY_MODULES.test(module ?? ''));

/** Returns null for a frame that says nothing, or nothing that outlives a build. */
const stableFrame = (frame: NormalizedFrame, platform: string): StableFrame | null => {
  const source = frame.context_line?.trim().replaceAll(/\s+/g, ' ') ?? '';
  if (SCRIPTS.has(platform) && source.length > MAX_SOURCE_LINE) return null;
  const name = stableFunction(frame.function ?? '');
  const isNamed = name.length >= (SCRIPTS.has(platform) ? MIN_SCRIPT_NAME : 1);
  if (!isNamed && (source === '' || source.length > MAX_SOURCE_LINE)) return null;
  return { place: stableModule(frame.module) ?? stableFile(frame), code: isNamed ? name : source };
};

const knownFunctions = new Cache<string, string>({ name: 'functions of stacks', limit: 5_000 });

/** Returns the name without the parts that compilers number, or an empty text for a function without a name. */
const stableFunction = (name: string): string => {
  // The same functions are in the stacks of most events.
  let stable = knownFunctions.get(name);
  if (stable !== undefined) return stable;
  stable = withoutNumbers(name);
  knownFunctions.set(name, stable);
  return stable;
};

const withoutNumbers = (name: string): string => {
  const plain = name
    .trim()
    .replace(/^(?:async\s+|new\s+)+/, '')
    .replace(/^(?:rescue in |ensure in |block (?:\(\d+ levels\) )?in )+/, '')
    .replace(/^Object\./, '')
    .replaceAll(/\$\$(?:\w*CGLIB|Lambda)\$\$[\w$]*/g, '')
    .replaceAll(/\blambda\$(?:(\w+)\$)?\d+/g, (_all, owner?: string) => owner ?? 'lambda')
    .replaceAll(/(Accessor|\$Proxy|\$)\d+/g, '$1');
  return /^(?:\?|<anonymous>|<lambda>|<unknown>|anonymous|eval|lambda|\{closure\})?$/.test(plain) ? '' : plain;
};

const stableModule = (module: string | null): string | null =>
  module === null || module === '' ? null : stableFunction(module) || module;

/** Returns the name of the frame's file in lower case, without the hash of a build: `app.3f2a9c.js` is `app.js`. */
export const stableFile = ({ filename, abs_path }: Pick<NormalizedFrame, 'filename' | 'abs_path'>): string => {
  const path = (filename ?? abs_path ?? '').replace(/[?#].*$/s, '');
  if (/^<|^\[native/.test(path)) return '';
  const [base = ''] = path.split(/[\\/]/).slice(-1);
  return base.toLowerCase().replaceAll(/[.-](?=[a-z]*\d|[a-f]+\.)[0-9a-z_]{6,}(?=\.|$)/g, '');
};
