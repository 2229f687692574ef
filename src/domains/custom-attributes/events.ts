import { z } from 'zod';
import { defineEvent } from '#platform/events.ts';

const attribute = z.object({ key: z.string() });

/**
 * Only administrators receive these, because they name no group, project or user as scope. They do not carry the value.
 */
export const customAttributeSet = defineEvent('custom_attribute.set', attribute);
export const customAttributeDeleted = defineEvent('custom_attribute.deleted', attribute);
