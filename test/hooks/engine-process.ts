import { startEngineProcess } from './engine-support.ts';

// A delivery process for tests to kill: `node engine-process.ts <databaseUrl>`.
const { services } = await startEngineProcess(process.argv[2] ?? '');
console.log(services.processId);
