import type { Page } from '#pages/page.ts';
import { applicationPages } from './pages/applications.ts';
import { authorizedPages } from './pages/authorized.ts';
import { consentPages } from './pages/consent.ts';
import { devicePages } from './pages/device.ts';

export const pages: readonly Page[] = [...consentPages, ...devicePages, ...applicationPages, ...authorizedPages];
