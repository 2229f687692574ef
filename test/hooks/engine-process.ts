import { startEngineProcess } from './engine-support.ts';

// A deliverer to be killed: `node engine-process.ts <databaseUrl>`.
const { services } = await startEngineProcess(process.argv[2] ?? '');
console.log(services.processId);
