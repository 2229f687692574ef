import { readFileSync } from 'node:fs';
import { pathToFileURL } from 'node:url';
import vm from 'node:vm';

// Runs a command line program several times: `node --experimental-vm-modules interpret.ts <program> <options>...`, where
// each `<options>` is a JSON array. Prints a JSON array with the exit code and the output of each run.
//
// Most of the CPU time of a run goes into starting Node and reading the program. Here each run only gets new instances of
// all modules of the program, which is a single file.
const [program = '', ...runs] = process.argv.slice(2);
const url = pathToFileURL(program).href;
const source = readFileSync(program, 'utf8');

const builtins = new Map<string, Promise<vm.SyntheticModule>>();
const load = async (name: string): Promise<vm.SyntheticModule> => {
  const namespace: Record<string, unknown> = await import(name);
  const names = Object.keys(namespace);
  const module = new vm.SyntheticModule(names, () => {
    for (const each of names) module.setExport(each, namespace[each]);
  });
  return module;
};
const link = (name: string): Promise<vm.SyntheticModule> => {
  const found = builtins.get(name) ?? load(name);
  builtins.set(name, found);
  return found;
};

/** Runs the program until it exits. */
const run = async (options: readonly string[]): Promise<{ code: number; stdout: string; stderr: string }> => {
  const written = { stdout: '', stderr: '' };
  for (const stream of ['stdout', 'stderr'] as const) {
    process[stream].write = (chunk: string | Uint8Array): boolean => {
      written[stream] += Buffer.from(chunk).toString();
      return true;
    };
  }
  process.argv = [process.execPath, program, ...options];
  const module = new vm.SourceTextModule(source, {
    identifier: url,
    initializeImportMeta: (meta) => {
      meta.url = url;
    },
  });
  await module.link(link);
  const { promise, resolve, reject } = Promise.withResolvers<number>();
  Reflect.set(process, 'exit', (code = 0) => resolve(Number(code)));
  module.evaluate().catch(reject);
  return { code: await promise, ...written };
};

const { exit } = process;
const write = process.stdout.write.bind(process.stdout);
// Each instance of the program listens for signals.
process.setMaxListeners(0);
const results: unknown[] = [];
for (const options of runs) results.push(await run(JSON.parse(options)));
write(JSON.stringify(results), () => Reflect.apply(exit, process, [0]));
