import { expect, it } from 'vitest';
import { useApp } from '../support/app.ts';
import { eventEnvelope, makeSender } from './sending.ts';

const app = useApp();

it('the collector is found where the OpenAPI document says', async () => {
  const { post, key, projectId } = await makeSender(app());
  const { body } = await app().anonymous.get('/openapi.json');
  const { servers } = body.paths['/api/{project_id}/envelope/'].post;
  const path = `${servers[0].url}/api/${projectId}/envelope/?sentry_key=${key.public_key}`;
  expect((await post(path, eventEnvelope())).status).toBe(200);
});
