import type { Context } from '#platform/context.ts';
import type { TreeEntry } from '#platform/git/objects.ts';
import type { ProjectRow } from './model.ts';
import { can } from './policy.ts';

/** The licence of a project, as detected from its file. */
export interface License {
  /** The SPDX identifier in lower case; `other` for an unknown licence. */
  readonly key: string;
  readonly name: string;
  readonly nickname: string | null;
  /** The explanation and the text of the licence; null for an unknown one. */
  readonly html_url: string | null;
  readonly source_url: string | null;
}

export interface FoundLicense {
  /** The path of the file in the default branch. */
  readonly path: string;
  readonly license: License;
}

const FILE = /^(?:un)?licen[sc]e(?:[-.][\w.-]+)?$|^copying(?:\.(?:md|txt|lesser))?$/i;

/** Every known licence can be recognised from its first lines. */
const MAX_BYTES = 16_384;

/** Finds the licence in the default branch. Returns null if there is none or the caller cannot read the code. */
export const findLicense = async (ctx: Context, project: ProjectRow): Promise<FoundLicense | null> => {
  const { default_branch, disk_path } = project;
  if (default_branch === null || !can(ctx, project, 'read_code')) return null;
  const { git } = ctx.services;
  const oid = await git.resolve(disk_path, `refs/heads/${default_branch}`);
  if (oid === null) return null;
  const files: TreeEntry[] = [];
  for await (const entry of git.walkTree(disk_path, oid)) {
    if (entry.type === 'blob' && FILE.test(entry.path)) files.push(entry);
  }
  // `LICENSE` sorts before `LICENSE-docs`, and both before `COPYING`.
  const [file] = files.sort(
    (a, b) => Number(/^c/i.test(a.path)) - Number(/^c/i.test(b.path)) || a.path.length - b.path.length,
  );
  if (!file) return null;
  const text = (await git.readBeginning(disk_path, file.oid, MAX_BYTES))?.toString('utf8') ?? '';
  return { path: file.path, license: recognise(text) };
};

const OTHER: License = { key: 'other', name: 'Other', nickname: null, html_url: null, source_url: null };

/** Recognises the licence regardless of line breaks and of the names in it. */
const recognise = (text: string): License => {
  const words = text
    .replace(/[^\p{L}\p{N}.]+/gu, ' ')
    .trim()
    .toLowerCase();
  const known = KNOWN.find(({ says }) => says.every((each) => each.test(words)));
  if (!known) return OTHER;
  const { id, name, nickname = null } = known;
  return {
    key: id.toLowerCase(),
    name,
    nickname,
    html_url: `https://choosealicense.com/licenses/${id.toLowerCase()}/`,
    source_url: `https://spdx.org/licenses/${id}.html`,
  };
};

interface KnownLicense {
  readonly id: string;
  readonly name: string;
  readonly nickname?: string;
  /** Matched against the words only; all must match. The first licence that matches is used. */
  readonly says: readonly RegExp[];
}

const REDISTRIBUTION = /redistribution and use in source and binary forms with or without modification are permitted/;
const SOFTWARE_FOR_ANY_PURPOSE =
  /permission to use copy modify and( or)? distribute this software for any purpose with or without fee is hereby granted/;

const KNOWN: readonly KnownLicense[] = [
  {
    id: 'Apache-2.0',
    name: 'Apache License 2.0',
    says: [/^(the )?apache license version 2.0 january 2004/],
  },
  {
    id: 'AGPL-3.0',
    name: 'GNU Affero General Public License v3.0',
    nickname: 'GNU AGPLv3',
    says: [/^gnu affero general public license version 3/],
  },
  {
    id: 'LGPL-3.0',
    name: 'GNU Lesser General Public License v3.0',
    nickname: 'GNU LGPLv3',
    says: [/^gnu lesser general public license version 3/],
  },
  {
    id: 'LGPL-2.1',
    name: 'GNU Lesser General Public License v2.1',
    nickname: 'GNU LGPLv2.1',
    says: [/^gnu lesser general public license version 2.1/],
  },
  {
    id: 'GPL-3.0',
    name: 'GNU General Public License v3.0',
    nickname: 'GNU GPLv3',
    says: [/^gnu general public license version 3/],
  },
  {
    id: 'GPL-2.0',
    name: 'GNU General Public License v2.0',
    nickname: 'GNU GPLv2',
    says: [/^gnu general public license version 2/],
  },
  { id: 'MPL-2.0', name: 'Mozilla Public License 2.0', says: [/^mozilla public license version 2.0/] },
  { id: 'EPL-2.0', name: 'Eclipse Public License 2.0', says: [/^eclipse public license v 2.0/] },
  { id: 'BSL-1.0', name: 'Boost Software License 1.0', says: [/^boost software license version 1.0/] },
  {
    id: 'CC0-1.0',
    name: 'Creative Commons Zero v1.0 Universal',
    says: [/^(creative commons )?(legal code )?cc0 1.0 universal/],
  },
  {
    id: 'Unlicense',
    name: 'The Unlicense',
    says: [/^(the unlicense )?this is free and unencumbered software released into the public domain/],
  },
  {
    id: 'MIT',
    name: 'MIT License',
    says: [
      /permission is hereby granted free of charge to any person obtaining a copy of this software/,
      /the above copyright notice and this permission notice shall be included in all copies/,
    ],
  },
  {
    id: 'ISC',
    name: 'ISC License',
    says: [
      SOFTWARE_FOR_ANY_PURPOSE,
      /provided that the above copyright notice and this permission notice appear in all copies/,
    ],
  },
  { id: '0BSD', name: 'BSD Zero Clause License', says: [SOFTWARE_FOR_ANY_PURPOSE] },
  {
    id: 'BSD-3-Clause',
    name: 'BSD 3-Clause "New" or "Revised" License',
    says: [REDISTRIBUTION, /^(?!.*all advertising materials).*neither the names? of/],
  },
  {
    id: 'BSD-2-Clause',
    name: 'BSD 2-Clause "Simplified" License',
    says: [REDISTRIBUTION, /^(?!.*(all advertising materials|neither the names? of))/],
  },
];
