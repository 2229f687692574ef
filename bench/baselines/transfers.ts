import { once } from 'node:events';
import { createReadStream, createWriteStream } from 'node:fs';
import { stat } from 'node:fs/promises';
import { createServer } from 'node:http';
import { pipeline } from 'node:stream/promises';
import { createGunzip, createGzip } from 'node:zlib';
import pg from 'pg';
import { from as copyFrom } from 'pg-copy-streams';
import { extract, pack } from 'tar-stream';
import { announce } from './announce.ts';

// The minimum for moving issues.
//     POST /import?file=F&project=N  gunzip, untar, split into lines, parse, COPY into the same table with its indexes.
//     POST /export?file=F&project=N  a cursor of 1,000 rows, a line of JSON each, tar, gzip at level 6 in one stream.
const client = new pg.Client({ connectionString: process.env.DATABASE_URL });
await client.connect();

const COLUMNS = ['project_id', 'iid', 'title', 'description', 'state', 'author_id', 'confidential', 'issue_type']
  .concat(['relative_position', 'time_estimate', 'closed_at', 'created_at', 'updated_at', 'imported'])
  .join();

const importInto = async (file: string, project: string, author: string): Promise<void> => {
  const copy = client.query(copyFrom(`copy issues (${COLUMNS}) from stdin`));
  const failed = new Promise<never>((_, reject) => copy.once('error', reject));
  const tar = extract();
  const read = pipeline(createReadStream(file), createGunzip(), tar);
  for await (const entry of tar) {
    if (entry.header.name !== 'tree/project/issues.ndjson') {
      entry.resume();
      continue;
    }
    let rest: Buffer = Buffer.alloc(0);
    for await (const chunk of entry) {
      if (!Buffer.isBuffer(chunk)) throw new Error('the archive is not read as bytes');
      const data = rest.length > 0 ? Buffer.concat([rest, chunk]) : chunk;
      let at = 0;
      let rows = '';
      for (let end = data.indexOf(10, at); end >= 0; end = data.indexOf(10, at)) {
        rows += row(JSON.parse(data.toString('utf8', at, end)), project, author);
        at = end + 1;
      }
      rest = data.subarray(at);
      if (rows !== '' && !copy.write(rows)) await Promise.race([once(copy, 'drain'), failed]);
    }
  }
  await read;
  await Promise.race([new Promise<void>((resolve) => copy.end(resolve)), failed]);
};

interface Line {
  readonly [name: string]: string | number | boolean | null;
}

const row = (line: Line, project: string, author: string): string =>
  `${[
    project,
    line.iid,
    escaped(line.title),
    escaped(line.description),
    line.state,
    author,
    line.confidential,
    line.issue_type,
    line.relative_position,
    line.time_estimate,
    line.closed_at ?? '\\N',
    line.created_at,
    line.updated_at,
    true,
  ].join('\t')}\n`;

const ESCAPES: Readonly<Record<string, string>> = { '\\': '\\\\', '\n': '\\n', '\r': '\\r', '\t': '\\t' };
const escaped = (value: unknown): string => String(value).replace(/[\\\n\r\t]/g, (c) => ESCAPES[c] ?? c);

const exportTo = async (file: string, project: string): Promise<void> => {
  // A tar header needs the size in advance.
  const lines = createWriteStream(`${file}.ndjson`);
  await client.query('begin');
  await client.query(
    `declare issues no scroll cursor for select * from issues where project_id = ${Number(project)} order by id`,
  );
  for (;;) {
    const { rows } = await client.query('fetch 1000 from issues');
    if (rows.length === 0) break;
    let text = '';
    for (const each of rows) text += `${JSON.stringify(each)}\n`;
    if (!lines.write(text)) await once(lines, 'drain');
  }
  await client.query('commit');
  await new Promise<void>((resolve) => lines.end(resolve));
  const { size } = await stat(`${file}.ndjson`);
  const tar = pack();
  const written = pipeline(tar, createGzip({ level: 6 }), createWriteStream(file));
  await pipeline(createReadStream(`${file}.ndjson`), tar.entry({ name: 'tree/project/issues.ndjson', size }));
  tar.finalize();
  await written;
};

announce(
  createServer((request, response) => {
    const { pathname, searchParams } = new URL(request.url ?? '', 'http://bare');
    const file = searchParams.get('file') ?? '';
    const project = searchParams.get('project') ?? '';
    const work =
      pathname === '/import' ? importInto(file, project, searchParams.get('author') ?? '') : exportTo(file, project);
    request.resume();
    work.then(
      () => response.end('done'),
      (error: unknown) => response.writeHead(500).end(String(error)),
    );
  }),
);
