import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';

const attribute = z.object({ key: z.string() });

/** Both are for administrators alone: neither names a place or a person. Values are not told. */
export const customAttributeSet = defineEvent('custom_attribute.set', attribute);
export const customAttributeDeleted = defineEvent('custom_attribute.deleted', attribute);
