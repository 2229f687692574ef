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
        slots: parameters.map((each) => (each instanceof Slot ? each.name : each === USER_SLOT ? USER : null)),
        constants: parameters,
      };
      byShape.set(shape, compiled);
    }
    return compiled;
  }
}

/**
 * Runs a compiled statement with the values of its slots. Outside a transaction it runs directly on the pool. If the
 * caller is assumed, the re-check of the caller runs together with it.
 */
export const runCompiled = async <Row extends object>(
  ctx: Pick<Context, 'db' | 'services' | 'actor' | 'callerCheck'>,
  { text, slots, constants }: Compiled,
  values: SlotValues,
): Promise<Row[]> => {
  const parameters = slots.map((name, i) =>
    name === null ? constants[i] : name === USER ? ctx.actor.userId : (values[name] ?? null),
  );
  const { db, services, callerCheck } = ctx;
  if (db !== services.db) return (await db.executeQuery<Row>(CompiledQuery.raw(text, parameters))).rows;
  // Named even without parameters, because Postgres plans an unnamed statement each time.
  const statement = { name: statementName(text), text, values: parameters };
  return callerCheck ? callerCheck.query(services.pool, statement) : (await services.pool.query<Row>(statement)).rows;
};
