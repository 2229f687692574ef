/** The CI file cannot be used. The message is for its author. */
export class ConfigError extends Error {
  override readonly name = 'ConfigError';
  /** Whether the CI file does not exist. */
  readonly isMissing: boolean;
  /** Whether the message names the included file, or is about all files. */
  readonly isPlaced: boolean;

  constructor(message: string, { isMissing = false, isPlaced = false } = {}) {
    super(message);
    this.isMissing = isMissing;
    this.isPlaced = isPlaced;
  }
}
