import { CompiledQuery, type RawBuilder } from 'kysely';
import { defineCache } from '../cache.ts';
import type { Context } from '../context.ts';
import { statementName } from './pool.ts';

/**
 * Statements that are built and compiled once per shape. Building and compiling a wide statement costs more than
 * running it. Hot reads therefore use slots in place of values, keep the compiled text, and fill the slots on each
 * call.
 */
class Slot {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}

/** Returns a placeholder for a `sql` template. Each call fills it with its value `name`. */
export const slot = (name: string): unknown => new Slot(name);

/**
 * A number that stands for the user id where only a number fits, as in access predicates. `runCompiled` replaces it.
 */
export const USER_SLOT = Number.MIN_SAFE_INTEGER;
const USER = 'user_id';

/** The same for the project of a job that acts with its token. */
export const JOB_PROJECT_SLOT = Number.MIN_SAFE_INTEGER + 1;
const JOB_PROJECT = 'job_project_id';

const nameOf = (parameter: unknown): string | null => {
  if (parameter instanceof Slot) return parameter.name;
  return parameter === USER_SLOT ? USER : parameter === JOB_PROJECT_SLOT ? JOB_PROJECT : null;
};

export type SlotValues = Readonly<Record<string, unknown>>;

export interface Compiled {
  readonly text: string;
  /**
   * For each parameter, the name of its slot, or null if its value is the constant at the same index of `constants`.
   */
  readonly slots: readonly (string | null)[];
  readonly constants: readonly unknown[];
}

const MAX_SHAPES = 1_000;

/** Compiled statements by shape. */
export class CompiledStatements {
  readonly #cacheOf = defineCache<string, Compiled>({ name: 'compiled statements', limit: MAX_SHAPES });

  get(ctx: Pick<Context, 'services'>, shape: string, build: () => RawBuilder<unknown>): Compiled {
    const byShape = this.#cacheOf(ctx.services);
    let compiled = byShape.get(shape);
    if (!compiled) {
      const { sql, parameters } = build().compile(ctx.services.db);
      compiled = {
        text: sql,
        slots: parameters.map(nameOf),
        constants: parameters,
      };
      byShape.set(shape, compiled);
    }
    return compiled;
  }
}

/**
 * Runs a compiled statement with the values of its slots. Outside a transaction it runs directly on the pool. If the
 * caller is assumed, the first statement takes the re-check of the caller along.
 */
export const runCompiled = async <Row extends object>(
  ctx: Pick<Context, 'db' | 'services' | 'actor' | 'callerCheck'>,
  compiled: Compiled,
  values: SlotValues,
): Promise<Row[]> => {
  const { text, slots, constants } = compiled;
  const { userId, job } = ctx.actor;
  const parameters = slots.map((name, i) => {
    if (name === null) return constants[i];
    return name === USER ? userId : name === JOB_PROJECT ? job?.projectId : (values[name] ?? null);
  });
  const { db, services, callerCheck } = ctx;
  if (db !== services.db) return (await db.executeQuery<Row>(CompiledQuery.raw(text, parameters))).rows;
  if (callerCheck) return callerCheck.query(services.pool, compiled, parameters);
  // Named even without parameters, because Postgres plans an unnamed statement each time.
  return (await services.pool.query<Row>({ name: statementName(text), text, values: parameters })).rows;
};
