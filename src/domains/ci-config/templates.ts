import { readFile } from 'node:fs/promises';
import { ConfigError } from './config-error.ts';

/** The files of `include:template`, in the folder `templates`. They are part of the hub. */
export const TEMPLATES = [
  'Go.gitlab-ci.yml',
  'Nodejs.gitlab-ci.yml',
  'Python.gitlab-ci.yml',
  'Rust.gitlab-ci.yml',
  'Workflows/Branch-Pipelines.gitlab-ci.yml',
  'Workflows/MergeRequest-Pipelines.gitlab-ci.yml',
] as const;

/**
 * Returns the text of a template.
 *
 * @throws ConfigError, which shows the name as `written`, the templates, and other ways to include a file
 */
export const readTemplate = async (name: string, written: string): Promise<string> => {
  const known = TEMPLATES.find((each) => each === name);
  if (known === undefined) {
    throw new ConfigError(
      `Template file \`${written}\` does not exist! The templates are ${TEMPLATES.join(', ')}. Include other files with local, project or remote.`,
    );
  }
  return readFile(new URL(`templates/${known}`, import.meta.url), 'utf8');
};
