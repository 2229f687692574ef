import { CHILD, type ImportBatch } from '../importing/batch.ts';
import {
  labelColumns,
  milestoneColumns,
  type Reference,
  readLabel,
  readMilestone,
  resolveLabels,
  resolveMilestones,
} from '../importing/references.ts';
import { awardTypes, readAward } from './awards.ts';
import {
  author,
  exported,
  integer,
  type Json,
  moment,
  Refused,
  type Row,
  readRow,
  readTime,
  text,
  time,
  typesOf,
} from './columns.ts';
import { NoteWriter, notesOf } from './notes.ts';
import { childList, childObject, nestedObject } from './reading.ts';
import type { ChildReading, ImportLine } from './relation.ts';

// The child data that issues and merge requests share.

type Owner = 'issue' | 'merge_request';
const TYPES = { issue: 'Issue', merge_request: 'MergeRequest' } as const;
const TABLES = { issue: 'issues', merge_request: 'merge_requests' } as const;

const timelogColumns = [
  integer('time_spent'),
  author('user_id'),
  time('spent_at'),
  text('summary', { max: 255 }),
  moment('created_at'),
];

const LABEL = `${labelColumns.map(({ key, column }) => `n.${column} as "${key}"`).join(', ')},
  case when n.project_id is null then 'GroupLabel' else 'ProjectLabel' end as "type", n.project_id as "project_id",
  n.namespace_id as "group_id"`;
const MILESTONE = `n.iid as "iid", ${milestoneColumns.map(({ key, column }) => `n.${column} as "${key}"`).join(', ')},
  n.project_id as "project_id", n.namespace_id as "group_id"`;
const labelObject = (id: string): string => nestedObject('labels n', LABEL, `n.id = ${id}`);
export const milestoneObject = (id: string): string => nestedObject('milestones n', MILESTONE, `n.id = ${id}`);

const RESOURCE_EVENTS = [
  { key: 'resource_label_events', kind: 'label' },
  { key: 'resource_milestone_events', kind: 'milestone' },
  { key: 'resource_state_events', kind: 'state' },
] as const;

/** Returns the child lists that export reads for issues or merge requests. */
export const issuableChildren = (owner: Owner): readonly ChildReading[] => {
  const parent = `t.${owner}_id`;
  const table = TABLES[owner];
  return [
    notesOf(`${owner}_id`, table),
    childList('label_links', {
      from: 'label_links t',
      parent,
      owner: table,
      columns: [
        exported('target_type', `'${TYPES[owner]}'`),
        exported('created_at', 't.created_at'),
        exported('label', labelObject('t.label_id')),
      ],
    }),
    childObject('milestone', {
      from: `${table} t join milestones n on n.id = t.milestone_id`,
      parent: 't.id',
      owner: table,
      columns: [
        ...['iid', 'title', 'description', 'state', 'due_date', 'start_date', 'project_id'].map((name) =>
          exported(name, `n.${name}`),
        ),
        exported('group_id', 'n.namespace_id'),
        exported('created_at', 'n.created_at'),
        exported('updated_at', 'n.updated_at'),
      ],
    }),
    childList('award_emoji', {
      from: 'award_emoji t',
      parent,
      owner: table,
      columns: [
        exported('name', 't.name'),
        exported('user_id', 't.user_id'),
        exported('awardable_type', `'${TYPES[owner]}'`),
        exported('created_at', 't.created_at'),
        exported('updated_at', 't.updated_at'),
      ],
    }),
    childList('subscriptions', {
      from: 'subscriptions t',
      parent,
      owner: table,
      orderBy: 't.user_id',
      columns: [exported('user_id', 't.user_id'), exported('subscribed', 't.subscribed')],
    }),
    childList('timelogs', { from: 'timelogs t', parent, owner: table, columns: timelogColumns }),
    ...RESOURCE_EVENTS.map(({ key, kind }) =>
      childList(key, {
        from: 'resource_events t',
        parent,
        owner: table,
        where: `t.kind = '${kind}'`,
        columns: [
          exported('user_id', 't.user_id'),
          exported('created_at', 't.created_at'),
          ...(kind === 'label' ? [] : [exported('state', 't.state')]),
          ...(kind === 'state' ? [] : [exported('action', 't.action')]),
          ...(kind === 'label' ? [exported('label', labelObject('t.label_id'))] : []),
          ...(kind === 'milestone' ? [exported('milestone', milestoneObject('t.milestone_id'))] : []),
        ],
      }),
    ),
  ];
};

const ACTIONS = new Map<unknown, string>([
  [1, 'add'],
  [2, 'remove'],
  ['add', 'add'],
  ['remove', 'remove'],
]);
const STATES = new Map<unknown, string>([
  [1, 'opened'],
  [2, 'closed'],
  [3, 'merged'],
  [4, 'locked'],
  [5, 'reopened'],
  ...['opened', 'closed', 'merged', 'locked', 'reopened'].map((state) => [state, state] as const),
]);

interface Linked<T> {
  readonly ownerId: number;
  readonly value: T;
}

/** Gathers the child data of a batch of issues or merge requests and writes it at once. */
export class IssuableWriter {
  readonly #batch: ImportBatch;
  readonly #owner: Owner;
  readonly #notes: NoteWriter;
  readonly #labels: Linked<{ label: Reference; created_at: string | null }>[] = [];
  readonly #milestones: { row: Row; milestone: Reference }[] = [];
  readonly #awards: Row[] = [];
  readonly #timelogs: Row[] = [];
  readonly #events: { row: Row; label: Reference | null; milestone: Reference | null }[] = [];
  readonly #users = new Map<string, Row[]>();

  constructor(batch: ImportBatch, owner: Owner) {
    this.#batch = batch;
    this.#owner = owner;
    this.#notes = new NoteWriter(batch);
  }

  /** Adds the shared child data of an item. `resolve` later sets `milestone_id` in its row. */
  add(line: ImportLine, row: Row, ownerId: number): void {
    const batch = this.#batch;
    const { people } = batch;
    const key = `${this.#owner}_id`;
    const each = (name: string, read: (child: Json) => void) => batch.children(line, line.value, name, read);
    each('notes', (note) => this.#notes.add(line, note, { noteable_type: TYPES[this.#owner], [key]: ownerId }));
    each('label_links', (link) => {
      this.#labels.push({
        ownerId,
        value: { label: readLabel(batch, link.label), created_at: readTime(link.created_at) },
      });
    });
    each('award_emoji', (award) => {
      this.#awards.push({ ...readAward(award, people), [key]: ownerId });
    });
    each('subscriptions', ({ user_id, subscribed }) => {
      this.person('subscriptions', ownerId, people.known(user_id), { subscribed: subscribed !== false });
    });
    each('timelogs', (timelog) => {
      const read = readRow(timelogColumns, timelog, people);
      if (read.time_spent === null) throw new Refused("time_spent can't be blank");
      this.#timelogs.push({ ...read, [key]: ownerId });
    });
    if (line.value.milestone !== null && line.value.milestone !== undefined) {
      try {
        this.#milestones.push({ row, milestone: readMilestone(batch, line.value.milestone) });
      } catch (error) {
        batch.fail(line, error instanceof Refused ? new Refused(`milestone: ${error.message}`) : error, CHILD);
      }
    }
    for (const { key: name, kind } of RESOURCE_EVENTS) {
      each(name, (event) => {
        const hasLabel = kind === 'label';
        const action = ACTIONS.get(event.action) ?? null;
        const state = STATES.get(event.state) ?? null;
        if (kind === 'state' ? state === null : action === null) throw new Refused('has no known action');
        this.#events.push({
          row: {
            [key]: ownerId,
            kind,
            user_id: people.author(event.user_id),
            state: hasLabel ? null : state,
            action: kind === 'state' ? null : action,
            created_at: readTime(event.created_at) ?? new Date().toISOString(),
          },
          // The label or milestone of an event may have been deleted.
          label: hasLabel && event.label ? readLabel(batch, event.label) : null,
          milestone: kind === 'milestone' && event.milestone ? readMilestone(batch, event.milestone) : null,
        });
      });
    }
  }

  /** Adds a user to a table of people of the item, such as its assignees. Duplicates are ignored. */
  person(table: string, ownerId: number, userId: number | null, more: Row = {}): void {
    if (userId === null) return;
    const rows = this.#users.get(table) ?? [];
    this.#users.set(table, rows);
    rows.push({ [`${this.#owner}_id`]: ownerId, user_id: userId, ...more });
  }

  /** Finds or creates the milestones and sets their ids in the rows of the items. */
  async resolve(): Promise<void> {
    const milestones = [
      ...this.#milestones.map(({ milestone }) => milestone),
      ...this.#events.flatMap(({ milestone }) => milestone ?? []),
    ];
    const milestoneId = await resolveMilestones(this.#batch, milestones);
    for (const { row, milestone } of this.#milestones) row.milestone_id = milestoneId(milestone);
    for (const { row, milestone } of this.#events) row.milestone_id = milestone ? milestoneId(milestone) : null;
  }

  /** Writes the child data. The items must be written before. */
  async write(userColumns: Readonly<Record<string, Readonly<Record<string, string>>>> = {}): Promise<void> {
    const batch = this.#batch;
    const key = `${this.#owner}_id`;
    const labelId = await resolveLabels(batch, [
      ...this.#labels.map(({ value }) => value.label),
      ...this.#events.flatMap(({ label }) => label ?? []),
    ]);
    await this.#notes.write();
    await batch.insert(
      'label_links',
      { [key]: 'bigint', label_id: 'bigint', created_at: 'timestamptz' },
      this.#labels.map(({ ownerId, value }) => ({
        [key]: ownerId,
        label_id: labelId(value.label),
        created_at: value.created_at ?? new Date().toISOString(),
      })),
      { unlessThere: true },
    );
    await batch.insert('award_emoji', { ...awardTypes, [key]: 'bigint' }, this.#awards, { unlessThere: true });
    await batch.insert('timelogs', typesOf(timelogColumns, { [key]: 'bigint' }), this.#timelogs);
    await batch.insert(
      'resource_events',
      {
        [key]: 'bigint',
        kind: 'text',
        user_id: 'bigint',
        state: 'text',
        action: 'text',
        label_id: 'bigint',
        milestone_id: 'bigint',
        created_at: 'timestamptz',
      },
      this.#events.map(({ row, label }) => ({ ...row, label_id: label ? labelId(label) : null })),
    );
    for (const [table, rows] of this.#users) {
      const more = table === 'subscriptions' ? { subscribed: 'boolean' } : userColumns[table];
      await batch.insert(table, { [key]: 'bigint', user_id: 'bigint', ...more }, rows, {
        unlessThere: true,
      });
    }
  }
}
