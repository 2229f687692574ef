import { groupDeleted } from '#domains/groups/events.ts';
import { projectDeleted } from '#domains/projects/events.ts';
import { defineFollower } from '#platform/event-log/followers.ts';
import { removeFolder } from './jobs.ts';
import { uploadFolder } from './model.ts';

/** Removes the files of deleted groups and projects. Their rows are already deleted. */
export const removeOfDeletedPlaces = defineFollower({
  name: 'uploads.places',
  payloads: false,
  wants: ({ kind }) => kind === groupDeleted.kind || kind === projectDeleted.kind,
  handle: async (tx, events) => {
    for (const { kind, subject_id } of events) {
      if (kind === groupDeleted.kind) tx.enqueue(removeFolder, { folder: uploadFolder('group', subject_id) });
      if (kind === projectDeleted.kind) tx.enqueue(removeFolder, { folder: uploadFolder('project', subject_id) });
    }
  },
});
