import type { Context } from '#platform/context.ts';
import { definePort } from '#platform/port.ts';
import { webUrl } from '#platform/urls.ts';
import { assetProxyOf } from './asset-proxy.ts';
import { fill } from './fill.ts';
import { type Home, isReference, type Prose, type Reference, type Referent } from './model.ts';
import { templatesOf } from './templates.ts';

/** A reference with the project or group of its text. */
export interface Wanted {
  readonly home: Home | null;
  readonly reference: Reference;
}

export interface Resolved {
  /** The targets of the references, in their order. Null if the caller cannot see the target. */
  readonly referents: readonly (Referent | null)[];
  /** The full paths of the given projects, by id. */
  readonly paths: ReadonlyMap<number, string>;
}

/** Finds what references stand for, in a constant number of statements. Implemented by the domain `references`. */
export const resolveReferences = definePort<
  Context,
  [wanted: readonly Wanted[], homes: readonly number[]],
  Promise<Resolved>
>('resolveReferences');

interface RenderingOptions {
  /** False leaves references as text. */
  readonly references?: boolean;
}

/** Different references of one call. Further ones stay text. */
const MAX_REFERENCES = 5_000;

/**
 * Renders texts as HTML for the caller, in their order: CommonMark with GFM, sanitised, with links for the references
 * to what the caller can see. Null and empty texts give an empty string. Takes a constant number of statements, and none
 * if no text has references or relative links.
 */
export const renderTexts = async (
  ctx: Context,
  proses: readonly Prose[],
  { references = true }: RenderingOptions = {},
): Promise<string[]> => {
  if (proses.every(({ text }) => !text)) return proses.map(() => '');
  const { assetProxy, variant } = await assetProxyOf(ctx);
  const base = ctx.services.urls.base;
  const texts = proses.map(({ text, inline = false }) => ({ text: text ?? '', inline }));
  const templates = await templatesOf(ctx, texts, { base, assetProxy }, variant);

  const wanted = new Map<string, Wanted>();
  const homes = new Set<number>();
  for (const [index, { slots }] of templates.entries()) {
    const home = proses[index]?.home ?? null;
    for (const slot of slots) {
      if (slot.kind === 'file' && home?.kind === 'project') homes.add(home.id);
      if (references && isReference(slot) && wanted.size < MAX_REFERENCES)
        wanted.set(keyOf(home, slot), { home, reference: slot });
    }
  }
  const { referents, paths } =
    wanted.size + homes.size === 0 ? NOTHING : await resolveReferences(ctx, [...wanted.values()], [...homes]);
  const byKey = new Map([...wanted.keys()].map((key, index) => [key, referents[index] ?? null]));

  return templates.map((template, index) => {
    const home = proses[index]?.home ?? null;
    const path = home?.kind === 'project' ? paths.get(home.id) : undefined;
    return fill(template, {
      referentOf: (reference) => byKey.get(keyOf(home, reference)) ?? null,
      home,
      homeUrl: path === undefined ? null : webUrl(ctx, path),
      base,
    });
  });
};

const NOTHING: Resolved = { referents: [], paths: new Map() };

/** References of one key stand for the same thing, however they are written. */
const keyOf = (home: Home | null, reference: Reference): string => {
  const { kind } = reference;
  if (kind === 'user') return `user ${reference.name.toLowerCase()}`;
  const value =
    kind === 'commit'
      ? reference.sha
      : kind === 'label' || kind === 'milestone'
        ? reference.name
        : `${reference.iid} ${reference.note ?? ''}`;
  return `${kind} ${home?.kind} ${home?.id} ${reference.project?.toLowerCase() ?? ''} ${value}`;
};

/** The same for one text. */
export const renderText = async (ctx: Context, prose: Prose, options?: RenderingOptions): Promise<string> =>
  (await renderTexts(ctx, [prose], options))[0] ?? '';
