import { styleText } from 'node:util';

const WIDTH = 28;
const FRAMES = ['⠋', '⠙', '⠹', '⠸', '⠼', '⠴', '⠦', '⠧', '⠇', '⠏'];
const FRAME_MS = 80;

export interface Step {
  /** Reports progress: a percentage between 0 and 100, and the current activity. */
  progress(percentage: number | null, detail: string): void;
}

export interface StepTime {
  readonly name: string;
  readonly durationMs: number;
}

/**
 * Shows steps as they run: a live line with a bar in a terminal, plain lines elsewhere. Keeps the duration of each step
 * for the summary.
 */
export class Steps {
  readonly times: StepTime[] = [];
  readonly #out: NodeJS.WriteStream;
  readonly #live: boolean;

  constructor(out: NodeJS.WriteStream = process.stdout) {
    this.#out = out;
    this.#live = out.isTTY === true && process.env.TERM !== 'dumb' && !process.env.CI;
  }

  /** Runs a step. `said` builds the closing remark from its result. */
  async run<T>(name: string, work: (step: Step) => Promise<T>, said: (result: T) => string = () => ''): Promise<T> {
    const startedAt = performance.now();
    const line = this.#live ? new LiveLine(this.#out, name) : new PlainLine(this.#out, name);
    try {
      const result = await work(line);
      const durationMs = performance.now() - startedAt;
      this.times.push({ name, durationMs });
      line.end('✔', 'green', `${said(result)} ${styleText('dim', formatDuration(durationMs))}`.trim());
      return result;
    } catch (error) {
      line.end('✖', 'red', 'failed');
      throw error;
    }
  }

  say(text = ''): void {
    this.#out.write(`${text}\n`);
  }
}

export const formatDuration = (durationMs: number): string =>
  durationMs < 1_000 ? `${Math.round(durationMs)} ms` : `${(durationMs / 1_000).toFixed(1)} s`;

export const formatBytes = (bytes: number): string => {
  const units = ['B', 'KiB', 'MiB', 'GiB'];
  let unit = 0;
  let value = bytes;
  for (; value >= 1_024 && unit < units.length - 1; unit++) value /= 1_024;
  return `${unit === 0 ? value : value.toFixed(1)} ${units[unit]}`;
};

type Colour = 'green' | 'red';

interface Line extends Step {
  end(mark: string, colour: Colour, remark: string): void;
}

class LiveLine implements Line {
  readonly #out: NodeJS.WriteStream;
  readonly #name: string;
  readonly #timer: NodeJS.Timeout;
  #frame = 0;
  #percentage: number | null = null;
  #detail = '';

  constructor(out: NodeJS.WriteStream, name: string) {
    this.#out = out;
    this.#name = name;
    this.#timer = setInterval(() => this.#draw(), FRAME_MS);
    this.#draw();
  }

  progress(percentage: number | null, detail: string): void {
    this.#percentage = percentage;
    this.#detail = detail;
    this.#draw();
  }

  end(mark: string, colour: Colour, remark: string): void {
    clearInterval(this.#timer);
    this.#write(`${styleText(colour, mark)} ${this.#name} ${remark}\n`);
  }

  #draw(): void {
    const spinner = styleText('cyan', FRAMES[this.#frame++ % FRAMES.length] ?? '');
    const bar = this.#percentage === null ? '' : ` ${barOf(this.#percentage)} ${Math.floor(this.#percentage)} %`;
    this.#write(`${spinner} ${this.#name}${bar} ${styleText('dim', this.#detail)}`);
  }

  #write(text: string): void {
    this.#out.write(`\r\u001b[2K${text}`);
  }
}

/** Output for logs: a line per quarter of the progress, and one at the end. */
class PlainLine implements Line {
  readonly #out: NodeJS.WriteStream;
  readonly #name: string;
  #quarter = 0;

  constructor(out: NodeJS.WriteStream, name: string) {
    this.#out = out;
    this.#name = name;
  }

  progress(percentage: number | null, detail: string): void {
    const quarter = Math.floor((percentage ?? 0) / 25);
    if (quarter <= this.#quarter) return;
    this.#quarter = quarter;
    this.#out.write(`  ${this.#name}: ${Math.floor(percentage ?? 0)} % ${detail}\n`);
  }

  end(mark: string, _colour: Colour, remark: string): void {
    this.#out.write(`${mark === '✔' ? 'ok  ' : 'FAIL'} ${this.#name} ${remark}\n`);
  }
}

const barOf = (percentage: number): string => {
  const filled = Math.round((Math.min(100, Math.max(0, percentage)) / 100) * WIDTH);
  return styleText('green', '━'.repeat(filled)) + styleText('dim', '━'.repeat(WIDTH - filled));
};
