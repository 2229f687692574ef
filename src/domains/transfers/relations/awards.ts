import { author, type Column, type Json, moment, type People, type Row, readRow, title } from './columns.ts';

export type AwardRow = Row;

const columns: readonly Column[] = [title('name'), author('user_id'), moment('created_at'), moment('updated_at')];

/** @throws Refused */
export const readAward = (award: Json, people: People): AwardRow => readRow(columns, award, people);

export const awardTypes = { name: 'text', user_id: 'bigint', created_at: 'timestamptz', updated_at: 'timestamptz' };

/** Returns the SQL columns of an exported award, for the given alias. */
export const awardColumns = (alias: string, awardable: string): string =>
  `${columns.map(({ key }) => `${alias}.${key} as "${key}"`).join(', ')}, '${awardable}' as "awardable_type"`;
