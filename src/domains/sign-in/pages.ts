import type { Page } from '#pages/page.ts';

export const pages: readonly Page[] = [];
